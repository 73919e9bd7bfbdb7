// Gathers move before the call whose result they do not need.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, Overlap) {
  CompileRequest r = testing::tiny_request();
  r.layout.data = 2;
  r.layout.zero = 3;
  r.layout.overlap = 1;
  testing::expect_change("overlap", r);
}

}  // namespace tessera::compile
