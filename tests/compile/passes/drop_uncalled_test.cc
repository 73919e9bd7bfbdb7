// The last stage has no embedding.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, DropUncalled) {
  CompileRequest r = testing::tiny_request();
  r.layout.pipeline = 2;
  r.stage = 1;
  testing::expect_change("drop_uncalled", r);
}

}  // namespace tessera::compile
