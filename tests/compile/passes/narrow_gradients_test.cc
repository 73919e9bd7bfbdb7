// Gradients of weights are bf16.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, NarrowGradients) {
  CompileRequest r = testing::tiny_request();
  r.precision = Precision::kBf16;
  r.options.grad_accum_dtype = GradAccumDType::kWeight;
  testing::expect_change("narrow_gradients", r);
}

}  // namespace tessera::compile
