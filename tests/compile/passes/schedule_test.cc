// Segments are called.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, Schedule) {
  CompileRequest r = testing::tiny_request();
  r.microbatches = 2;
  testing::expect_change("schedule", r);
}

}  // namespace tessera::compile
