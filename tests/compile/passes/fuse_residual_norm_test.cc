// The residual is added inside of the norm.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, FuseResidualNorm) {
  CompileRequest r = testing::tiny_request();
  r.model.parallel_residual = false;
  r.options.fuse_residual_norm = true;
  testing::expect_change("fuse_residual_norm", r);
}

}  // namespace tessera::compile
