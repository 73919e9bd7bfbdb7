// Blocks are segments, values have frames.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, Expand) { testing::expect_change("expand", testing::tiny_request()); }

}  // namespace tessera::compile
