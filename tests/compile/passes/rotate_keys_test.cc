// With a ring, attention has one op per visit of a block of keys and values, and messages between
// the visits.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, RotateKeys) {
  CompileRequest r = testing::tiny_request();
  r.layout.context = 2;
  r.layout.context_method = ContextMethod::kRing;
  r.layout.context_balance = true;
  testing::expect_change("rotate_keys", r);
}

}  // namespace tessera::compile
