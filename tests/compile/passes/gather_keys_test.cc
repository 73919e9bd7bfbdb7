// With sequences divided over ranks, attention has its keys and values as an operand of their own.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, GatherKeys) {
  CompileRequest r = testing::tiny_request();
  r.layout.context = 2;
  testing::expect_change("gather_keys", r);
}

}  // namespace tessera::compile
