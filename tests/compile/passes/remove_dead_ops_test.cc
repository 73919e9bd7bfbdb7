// The graphs of all families need every op, so nothing goes.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, RemoveDeadOps) { testing::expect_change("remove_dead_ops", testing::tiny_request()); }

}  // namespace tessera::compile
