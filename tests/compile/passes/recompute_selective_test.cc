// Norms and attention are computed again in the backward.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, RecomputeSelective) {
  CompileRequest r = testing::tiny_request();
  r.layout.recompute = "selective";
  testing::expect_change("recompute_selective", r);
}

}  // namespace tessera::compile
