// GEMMs of layers quantize their operands.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, MultiplyInFp8) {
  CompileRequest r = testing::tiny_request();
  r.options.gemm_dtype = GemmDType::kFp8;
  testing::expect_change("multiply_in_fp8", r);
}

}  // namespace tessera::compile
