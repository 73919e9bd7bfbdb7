// The z-loss and the label smoothing are attributes of the loss.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, AddLossTerms) {
  CompileRequest r = testing::tiny_request();
  r.loss = {.z_loss = 1e-4, .label_smoothing = 0.1};
  testing::expect_change("add_loss_terms", r);
}

}  // namespace tessera::compile
