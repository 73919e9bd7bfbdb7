// Ops mark_shared are gone.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, RemoveShares) {
  CompileRequest r = testing::tiny_request();
  r.layout.tensor = 2;
  r.layout.sequence_parallel = false;
  testing::expect_change("remove_mark_shared", r);
}

}  // namespace tessera::compile
