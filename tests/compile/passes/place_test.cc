// Frames have offsets in the arena.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, Place) { testing::expect_change("place", testing::tiny_request()); }

}  // namespace tessera::compile
