// Values have shardings, and conversions are ops.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, Shard) {
  CompileRequest r = testing::tiny_request();
  r.layout.tensor = 2;
  testing::expect_change("shard", r);
}

}  // namespace tessera::compile
