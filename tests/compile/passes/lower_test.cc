// Blocks are segments, values have buffers.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, Lower) { testing::expect_change("lower", testing::tiny_request()); }

}  // namespace tessera::compile
