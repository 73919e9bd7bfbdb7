// The fused loss becomes a GEMM and a cross-entropy.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, UnfuseCrossEntropy) {
  CompileRequest r = testing::tiny_request();
  r.options.cross_entropy = CrossEntropyKind::kUnfused;
  testing::expect_change("unfuse_cross_entropy", r);
}

}  // namespace tessera::compile
