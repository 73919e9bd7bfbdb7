// Frozen weights are marked.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera {

TEST(Passes, Freeze) {
  CompileRequest r = testing::tiny_request();
  r.frozen = {"embed.weight"};
  testing::expect_change("freeze", r);
}

}  // namespace tessera
