// Buffers have offsets in the arena.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, AssignBuffers) { testing::expect_change("assign_buffers", testing::tiny_request()); }

}  // namespace tessera::compile
