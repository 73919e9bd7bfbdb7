// Gradients are reduced and weights gathered.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, Zero) {
  CompileRequest r = testing::tiny_request();
  r.layout.data = 2;
  testing::expect_change("zero", r);
}

}  // namespace tessera::compile
