// Dropout stores its mask.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, StoreDropoutMasks) {
  CompileRequest r = testing::tiny_request();
  r.model.dropout = 0.1;
  r.options.dropout_masks = DropoutMaskPolicy::kStore;
  testing::expect_change("store_dropout_masks", r);
}

}  // namespace tessera::compile
