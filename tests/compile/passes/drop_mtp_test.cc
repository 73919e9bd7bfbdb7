// Only training computes multi-token prediction; other programs keep its weights.
#include <gtest/gtest.h>

#include "model/presets.h"
#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, DropMtp) {
  CompileRequest r = testing::tiny_request();
  model::apply_family(model::Family::kLlama, r.model);
  r.model.mtp_depth = 1;
  r.kind = ProgramKind::kLogits;
  testing::expect_change("drop_mtp", r);
  r.kind = ProgramKind::kValidate;
  testing::expect_change("drop_sharded_mtp", r);
}

}  // namespace tessera::compile
