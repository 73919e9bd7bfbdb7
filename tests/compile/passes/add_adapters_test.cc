// Two GEMMs next to each GEMM with a target weight.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, AddAdapters) {
  CompileRequest r = testing::tiny_request();
  r.adapters.rank = 2;
  r.adapters.targets = {"layer.attn.qkv.weight"};
  testing::expect_change("add_adapters", r);
}

}  // namespace tessera::compile
