// Layers are assigned to stages.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, AssignStages) {
  CompileRequest r = testing::tiny_request();
  r.layout.pipeline = 2;
  testing::expect_change("assign_stages", r);
}

}  // namespace tessera::compile
