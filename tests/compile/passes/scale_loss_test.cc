// The gradient of the loss is multiplied by the loss scale.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, ScaleLoss) {
  CompileRequest r = testing::tiny_request();
  r.precision = Precision::kFp16;
  testing::expect_change("scale_loss", r);
}

}  // namespace tessera::compile
