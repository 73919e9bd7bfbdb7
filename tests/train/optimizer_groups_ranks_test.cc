// Weights with several optimizers on two to four ranks: what one rank computes, in every stage of
// ZeRO, with tensor ranks and with a pipeline.
#include <gtest/gtest.h>

#include "tests/config/optimizer_groups.h"
#include "tests/train/tiny_run.h"
#include "tests/train/verified_run.h"

namespace tessera::testing {
namespace {

config::RunConfig grouped(model::Family family) {
  config::RunConfig c = train::tiny(family);
  c.run.threads = 1;
  c.batch.micro = 1;
  c.batch.global = 12;
  // Epsilons for which no weight is moved by what is but a rounding of its gradient.
  c.optimizer.epsilon = 1e-4;
  c.optimizer.groups = config::groups_of(
      "[{match: ['*norm*'], kind: sgd, beta1: 0.9, learning_rate_multiplier: 4},"
      " {match: [embed.*], kind: adafactor, epsilon: 1.0e-8, beta1: 0.5},"
      " {match: ['*.mlp.*'], beta1: 0.5, weight_decay: 0.2, learning_rate_multiplier: 0.25}]");
  return c;
}

void expect_equal(const config::RunConfig& c, const std::string& what) {
  const std::vector<train::RankRecords> all = on_all_ranks(c, stages_of(c));
  if (ranks().rank() != 0) return;
  const train::ValueComparison found = train::compare_values(
      on_one_rank(c), all,
      train::value_bounds(config::compile_request(c, compile::ProgramKind::kTrain)));
  EXPECT_GT(found.compared, 100) << what;
  EXPECT_FALSE(found.first.has_value()) << what << ": " << found.first->told;
}

TEST(OptimizerGroups, ZeroOnDataRanks) {
  for (const int64_t zero : {0, 1, 2, 3}) {
    config::RunConfig c = grouped(model::Family::kLlama);
    c.layout.data = ranks().size();
    c.layout.zero = zero;
    expect_equal(c, fmt::format("llama, data, zero {}", zero));
  }
}

TEST(OptimizerGroups, ReducedMicrobatchesAndBuckets) {
  config::RunConfig c = grouped(model::Family::kNeox);
  c.precision = compile::Precision::kBf16;
  c.optimizer.epsilon = 1e-3;
  c.layout.data = ranks().size();
  c.layout.zero = 2;
  c.layout.zero_reduce = compile::ZeroReduce::kEach;
  c.compiler.bucket_bytes = 1 << 12;
  expect_equal(c, "neox, zero 2, each micro-batch");
}

// The embedding is tied to the head, so the first and the last stage have it.
TEST(OptimizerGroups, PipelineWithTiedEmbeddings) {
  if (ranks().size() == 3) return;  // of four micro-batches
  config::RunConfig c = grouped(model::Family::kGpt2);
  c.layout.pipeline = 2;
  c.layout.data = ranks().size() / 2;
  c.layout.zero = 1;
  expect_equal(c, "gpt2, pipeline");
}

TEST(OptimizerGroups, TensorRanks) {
  if (ranks().size() == 3) return;
  config::RunConfig c = grouped(model::Family::kNeox);
  c.layout.tensor = 2;
  c.layout.data = ranks().size() / 2;
  c.layout.zero = 3;
  expect_equal(c, "neox, tensor");
}

// Muon for the matrices of layers and, by a group, for the embedding.
config::RunConfig with_muon(model::Family family) {
  config::RunConfig c = train::tiny(family);
  c.run.threads = 1;
  c.batch.micro = 1;
  c.batch.global = 12;
  c.optimizer.kind = OptimizerKind::kMuon;
  c.optimizer.epsilon = 1e-4;
  c.optimizer.groups =
      config::groups_of("[{match: [embed.*], kind: muon, learning_rate_multiplier: 0.5}]");
  return c;
}

TEST(Muon, ZeroOnDataRanks) {
  for (const int64_t zero : {0, 1, 2, 3}) {
    config::RunConfig c = with_muon(model::Family::kLlama);
    c.layout.data = ranks().size();
    c.layout.zero = zero;
    expect_equal(c, fmt::format("llama, data, zero {}", zero));
  }
}

TEST(Muon, TensorRanks) {
  if (ranks().size() == 3) return;
  for (const bool parallel : {false, true}) {
    config::RunConfig c = with_muon(model::Family::kNeox);
    c.layout.tensor = 2;
    c.layout.sequence_parallel = parallel;
    c.layout.data = ranks().size() / 2;
    c.layout.zero = 3;
    expect_equal(c, "neox, tensor");
  }
}

// Context-parallel ranks divide the optimizer state too, with and without several shards.
TEST(Muon, ContextRanks) {
  if (ranks().size() == 3) return;
  for (const int64_t zero : {0, 1, 3}) {
    config::RunConfig c = with_muon(model::Family::kLlama);
    c.layout.context = 2;
    c.layout.data = ranks().size() / 2;
    c.layout.zero = zero;
    expect_equal(c, fmt::format("llama, context, zero {}", zero));
  }
}

TEST(Muon, Pipeline) {
  if (ranks().size() == 3) return;
  config::RunConfig c = with_muon(model::Family::kGpt2);
  c.layout.pipeline = 2;
  c.layout.data = ranks().size() / 2;
  c.layout.zero = 1;
  expect_equal(c, "gpt2, pipeline");
}

// Ranks have whole experts, each a matrix of its own.
TEST(Muon, ExpertRanks) {
  if (ranks().size() == 3) return;
  for (const int64_t zero : {0, 1}) {
    config::RunConfig c = with_muon(model::Family::kMixtral);
    c.layout.data = ranks().size();
    c.layout.expert = 2;
    c.layout.zero = zero;
    expect_equal(c, fmt::format("mixtral, experts, zero {}", zero));
  }
}

}  // namespace
}  // namespace tessera::testing
