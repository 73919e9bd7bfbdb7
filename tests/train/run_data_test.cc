#include "train/run_data.h"

#include <gtest/gtest.h>

#include "tests/data/dataset_fixture.h"

namespace tessera::train {
namespace {

config::RunConfig config() {
  config::RunConfig c;
  c.data.train = {{"a/wiki", 3}, {"b/code", 1}};
  c.data.sequence_length = 128;
  c.run.seed = 7;
  return c;
}

TEST(RunDataTest, TrainingReadsAllSetsOfTheirFirstPart) {
  config::RunConfig c = config();
  c.data.split = "9,1";
  const data::DatasetSpec spec = training_spec(c, 500);
  ASSERT_EQ(spec.datasets.size(), 2u);
  EXPECT_EQ(spec.datasets[0].prefix, "a/wiki");
  EXPECT_EQ(spec.datasets[0].weight, 3);
  EXPECT_EQ(spec.split, "9,1");
  EXPECT_EQ(spec.part, 0);
  EXPECT_EQ(spec.sequence_length, 128);
  EXPECT_EQ(spec.seed, 7u);
  EXPECT_EQ(spec.vocabulary, 500);
}

TEST(RunDataTest, SpanCorruptionTakesItsIdsFromTheTokenizer) {
  class WithSentinels : public data::ByteTokenizer {
    int32_t sentinels() const override { return 9; }
  };
  config::RunConfig c = config();
  c.data.stages = {{1000, {{"c", 2}}}};
  c.data.size_exponent = 0.3;
  EXPECT_FALSE(training_spec(c, 500, WithSentinels()).spans);
  c.data.objective = config::Objective::kSpanCorruption;
  c.data.mean_span = 4;
  const data::DatasetSpec spec = training_spec(c, 500, WithSentinels());
  ASSERT_TRUE(spec.spans);
  EXPECT_EQ(spec.spans->how.mean_span, 4);
  EXPECT_EQ(spec.spans->ids.first_sentinel, 256);
  EXPECT_EQ(spec.spans->ids.end_of_text, 256);
  EXPECT_EQ(spec.spans->sentinels, 9);
  EXPECT_EQ(spec.stages.at(0).datasets.at(0).prefix, "c");
  EXPECT_EQ(spec.size_exponent, 0.3);
  EXPECT_THROW(training_spec(c, 500, data::ByteTokenizer()), Error);
}

class TrainingRowsTest : public data::DatasetFixture {};

TEST_F(TrainingRowsTest, ComeFromDataSetsOrInstructions) {
  config::RunConfig c = config();
  c.data.sequence_length = 16;
  c.data.train = {{dataset("d", std::vector<std::vector<int32_t>>(9, {1, 2, 3, 4, 5, 6, 7})), 1}};
  TrainingRowReader texts(c, 257, data::ByteTokenizer());
  EXPECT_EQ(texts.row_tokens(), 16);
  EXPECT_EQ(texts.row_source(), 0);
  EXPECT_EQ(texts.tokens(), 63);
  std::vector<int32_t> tokens(16), labels(16), positions(16), documents(16);
  texts.read_row(3, {tokens, labels, positions, documents, {}});
  EXPECT_EQ(tokens[1], labels[0]);

  c.data.train.clear();
  c.data.instructions = {put("i.jsonl", "{\"prompt\":\"a\",\"response\":\"b\"}\n")};
  c.data.form = "{prompt}:{response}";
  TrainingRowReader instructions(c, 257, data::ByteTokenizer());
  EXPECT_EQ(instructions.most_read(3).epochs, 3);
  instructions.read_row(5, {tokens, labels, positions, documents, {}});
  EXPECT_EQ(labels[0], data::kIgnoredLabel);
  EXPECT_EQ(labels[1], 'b');
  EXPECT_EQ(labels[2], 256);
  EXPECT_EQ(documents[3], data::kNoDocument);
}

TEST(RunDataTest, ValidationSetsAreReadAsAWhole) {
  config::RunConfig c = config();
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
  config::RunConfig c = config();
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
}  // namespace tessera::train
