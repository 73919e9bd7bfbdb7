#include "train/run_data.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

RunConfig config() {
  RunConfig c;
  c.data.train = {{"a/wiki", 3}, {"b/code", 1}};
  c.data.sequence_length = 128;
  c.run.seed = 7;
  return c;
}

TEST(RunDataTest, TrainingReadsAllSetsOfTheirFirstPart) {
  RunConfig c = config();
  c.data.split = "9,1";
  const DatasetSpec spec = training_spec(c, 500);
  ASSERT_EQ(spec.datasets.size(), 2u);
  EXPECT_EQ(spec.datasets[0].prefix, "a/wiki");
  EXPECT_EQ(spec.datasets[0].weight, 3);
  EXPECT_EQ(spec.split, "9,1");
  EXPECT_EQ(spec.part, 0);
  EXPECT_EQ(spec.sequence_length, 128);
  EXPECT_EQ(spec.seed, 7u);
  EXPECT_EQ(spec.vocabulary, 500);
}

TEST(RunDataTest, ValidationSetsAreReadAsAWhole) {
  RunConfig c = config();
  c.data.split = "9,1";
  c.data.validation = {{"held out", "v"}};
  const auto specs = validation_specs(c, 500);
  ASSERT_EQ(specs.size(), 1u);
  EXPECT_EQ(specs[0].name, "held out");
  ASSERT_EQ(specs[0].spec.datasets.size(), 1u);
  EXPECT_EQ(specs[0].spec.datasets[0].prefix, "v");
  EXPECT_EQ(specs[0].spec.split, "");
  EXPECT_EQ(specs[0].spec.part, 0);
}

TEST(RunDataTest, WithoutThemTheSplitGivesOneASet) {
  RunConfig c = config();
  EXPECT_TRUE(validation_specs(c, 500).empty());
  c.data.split = "1,0,1";
  EXPECT_TRUE(validation_specs(c, 500).empty());
  c.data.split = "969,30,1";
  const auto specs = validation_specs(c, 500);
  ASSERT_EQ(specs.size(), 2u);
  EXPECT_EQ(specs[0].name, "wiki");
  EXPECT_EQ(specs[1].name, "code");
  EXPECT_EQ(specs[1].spec.datasets[0].prefix, "b/code");
  EXPECT_EQ(specs[1].spec.part, 1);
  EXPECT_EQ(specs[1].spec.split, "969,30,1");
}

}  // namespace
}  // namespace tessera
