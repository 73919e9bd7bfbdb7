// State on the host is copied around the calls that use it.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, CopyState) {
  CompileRequest r = testing::tiny_request();
  r.precision = Precision::kBf16;
  r.layout.offload = "optimizer";
  testing::expect_change("copy_state", r);
}

}  // namespace tessera::compile
