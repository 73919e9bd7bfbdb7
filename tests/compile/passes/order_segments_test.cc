// Gradients of weights move to where the layer would wait for collectives.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, OrderSegments) {
  CompileRequest r = testing::tiny_request();
  r.sequences = 2;
  r.layout.tensor = 2;
  r.options.tp_comm_overlap = true;
  testing::expect_change("order_segments", r);
}

}  // namespace tessera::compile
