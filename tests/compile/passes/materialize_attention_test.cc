// Attention becomes scores, softmax and mix.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, MaterializeAttention) {
  CompileRequest r = testing::tiny_request();
  r.options.attention = AttentionKind::kUnfused;
  testing::expect_change("materialize_attention", r);
}

}  // namespace tessera::compile
