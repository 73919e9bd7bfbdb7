// The loss becomes a GEMM into the logits.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, KeepLogits) {
  CompileRequest r = testing::tiny_request();
  r.kind = ProgramKind::kLogits;
  testing::expect_change("keep_logits", r);
}

}  // namespace tessera::compile
