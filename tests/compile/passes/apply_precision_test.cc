// Weights and activations are bf16, statistics and losses f32.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, ApplyPrecision) {
  CompileRequest r = testing::tiny_request();
  r.precision = Precision::kBf16;
  testing::expect_change("apply_precision", r);
}

}  // namespace tessera::compile
