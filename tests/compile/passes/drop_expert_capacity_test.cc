// Programs that generate compute all pairs of a token and an expert.
#include <gtest/gtest.h>

#include "compile/compile.h"
#include "model/presets.h"
#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, DropExpertCapacity) {
  CompileRequest r = testing::tiny_request();
  model::apply_family(model::Family::kMixtral, r.model);
  r.model.router.capacity_factor = 1.25;
  r.kind = ProgramKind::kLogits;
  testing::expect_change("drop_expert_capacity", r);
}

// Training and validation drop pairs, generation does not.
TEST(ExpertCapacity, IsInProgramsWithALoss) {
  CompileRequest r = testing::tiny_request(model::Family::kMixtral);
  r.model.router.capacity_factor = 1.25;
  for (const ProgramKind kind :
       {ProgramKind::kTrain, ProgramKind::kValidate, ProgramKind::kLogits, ProgramKind::kDecode}) {
    r.kind = kind;
    int64_t found = 0;
    for (const Segment& s : compile(r, {}).segments)
      for (const Op& op : s.ops) found += op.is<ExpertCapacity>() ? 1 : 0;
    const bool has_loss = kind == ProgramKind::kTrain || kind == ProgramKind::kValidate;
    EXPECT_EQ(found, has_loss ? 1 : 0) << static_cast<int>(kind);
  }
}

}  // namespace tessera::compile
