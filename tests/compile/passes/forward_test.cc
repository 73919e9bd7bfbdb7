// The forward of the model as its family writes it.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, Forward) { testing::expect_change("forward", testing::tiny_request()); }

}  // namespace tessera::compile
