// Ops on two sequences become ops on one; the gradients of weights stay whole.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, ChunkLayers) {
  CompileRequest r = testing::tiny_request();
  r.sequences = 2;
  r.layout.tensor = 2;
  r.options.tp_comm_overlap = true;
  testing::expect_change("chunk_layers", r);
}

}  // namespace tessera::compile
