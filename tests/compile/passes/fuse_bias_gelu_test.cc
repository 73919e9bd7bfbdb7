// The bias is added inside of the activation.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, FuseBiasGelu) {
  CompileRequest r = testing::tiny_request();
  r.options.fuse_bias_gelu = true;
  testing::expect_change("fuse_bias_gelu", r);
}

}  // namespace tessera::compile
