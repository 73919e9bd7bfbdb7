// The loss over pairs of answers replaces that over tokens, and brings its two inputs.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, AddPreferenceLoss) {
  CompileRequest r = testing::tiny_request();
  r.preference = PreferenceTerms{.kind = PreferenceKind::kDpo};
  testing::expect_change("add_preference_loss", r);
}

}  // namespace tessera::compile
