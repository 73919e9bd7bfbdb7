// Saved values wait in the memory of the host.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, Offload) {
  CompileRequest r = testing::tiny_request();
  r.model.layers = 3;
  r.layout.offload = "activations";
  testing::expect_change("offload", r);
}

}  // namespace tessera::compile
