// Three stored weights in place of the weight of each GEMM, which is computed before it is read.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, QuantizeWeights) {
  CompileRequest r = testing::tiny_request();
  r.model.hidden = 64;
  r.model.head_width = 32;
  r.model.feed_forward = 128;
  r.adapters.rank = 2;
  r.adapters.targets = {"layer.attn.qkv.weight"};
  r.adapters.quantize = Quantization::kNf4;
  testing::expect_change("quantize_weights", r);
}

}  // namespace tessera::compile
