// Gradients of weights have a list of their own.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, SplitBackward) {
  CompileRequest r = testing::tiny_request();
  r.layout.pipeline = 2;
  r.layout.pipeline_schedule = PipelineSchedule::kZeroBubble;
  testing::expect_change("split_backward", r);
}

}  // namespace tessera::compile
