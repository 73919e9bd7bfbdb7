// The backward reads the pairs that the experts of the forward save.
#include <gtest/gtest.h>

#include "model/presets.h"
#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, SaveExpertPairs) {
  CompileRequest r = testing::tiny_request();
  model::apply_family(model::Family::kMixtral, r.model);
  testing::expect_change("save_expert_pairs", r);
}

}  // namespace tessera::compile
