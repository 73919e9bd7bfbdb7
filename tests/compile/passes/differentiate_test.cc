// Blocks get their backward.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, Differentiate) { testing::expect_change("differentiate", testing::tiny_request()); }

}  // namespace tessera::compile
