// The table of passes: names, levels, and what follows from them.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "compile/passes.h"

namespace tessera::compile {
namespace {

TEST(PassTable, LevelsNeverGoBack) {
  Level level = Level::kModel;
  for (const Pass& p : all_passes()) {
    EXPECT_GE(p.level, level) << p.name;
    level = p.level;
  }
  EXPECT_EQ(level, Level::kPlaced);
}

TEST(PassTable, EachPassHasOneNameAndAText) {
  std::set<std::string_view> names;
  for (const Pass& p : all_passes()) {
    EXPECT_TRUE(names.insert(p.name).second) << p.name;
    EXPECT_TRUE(std::filesystem::exists(Path(TESSERA_PASS_TEXTS) / (std::string(p.name) + ".txt")))
        << p.name << " has no text in tests/compile/passes";
  }
}

TEST(PassTable, StagesShareThePassesOfBlocks) {
  EXPECT_EQ(block_passes().size() + stage_passes().size(), all_passes().size());
  EXPECT_EQ(block_passes().back().name, "move_state");
  EXPECT_EQ(stage_passes().front().name, "schedule");
  EXPECT_EQ(passes_through("assign_buffers").size(), all_passes().size());
  EXPECT_TRUE(passes_through("nothing").empty());
}

// A fault that a pass leaves is found by the verification after it.
TEST(PassTable, VerifyFindsWhatAPassLeaves) {
  State s;
  Value x;
  x.name = "x";
  x.shape = {2};
  s.graph.values.push_back(x);
  Block b;
  b.name = "layer";
  Op op;
  op.attributes = Scale{};
  op.inputs = {ValueId(0)};
  op.outputs = {ValueId(0)};
  b.forward.push_back(op);
  s.graph.blocks.push_back(b);
  const std::vector<std::string> faults = verify(s, Invariant::kTypes);
  ASSERT_FALSE(faults.empty());
  EXPECT_NE(faults[0].find("x, which nothing before it made"), std::string::npos) << faults[0];
}

}  // namespace
}  // namespace tessera::compile
