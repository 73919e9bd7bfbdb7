// An op of its own adds to gradients of weights.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, SeparateAccumulation) {
  CompileRequest r = testing::tiny_request();
  r.options.fuse_grad_accumulation = false;
  testing::expect_change("separate_accumulation", r);
}

}  // namespace tessera::compile
