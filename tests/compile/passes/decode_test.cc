// Attention reads a cache.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, Decode) {
  CompileRequest r = testing::tiny_request();
  r.kind = ProgramKind::kDecode;
  r.tokens = 1;
  testing::expect_change("decode", r);
}

}  // namespace tessera::compile
