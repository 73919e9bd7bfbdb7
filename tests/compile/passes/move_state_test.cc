// Master weights and moments are in the host's memory.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, MoveState) {
  CompileRequest r = testing::tiny_request();
  r.precision = Precision::kBf16;
  r.layout.offload = "optimizer";
  testing::expect_change("move_state", r);
}

}  // namespace tessera::compile
