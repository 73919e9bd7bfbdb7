// The collectives of a layer go to a queue of their own.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, AssignQueues) {
  CompileRequest r = testing::tiny_request();
  r.sequences = 2;
  r.layout.tensor = 2;
  r.options.tp_comm_overlap = true;
  testing::expect_change("assign_queues", r);
}

}  // namespace tessera::compile
