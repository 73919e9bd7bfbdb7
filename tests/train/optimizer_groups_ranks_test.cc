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

// A mean of the weights, an optimizer that averages them itself, and all terms of the loss.
config::RunConfig with_averages(model::Family family, OptimizerKind kind) {
  config::RunConfig c = train::tiny(family);
  c.run.threads = 1;
  c.batch.micro = 1;
  c.batch.global = 12;
  c.optimizer = config::optimizer_defaults(kind);
  c.optimizer.epsilon = 1e-4;
  c.optimizer.ema = 0.75;
  c.loss = {.z_loss = 0.01, .label_smoothing = 0.2};
  return c;
}

TEST(Averages, ZeroOnDataRanks) {
  for (const int64_t zero : {0, 1, 2, 3})
    for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kScheduleFree}) {
      config::RunConfig c = with_averages(model::Family::kLlama, kind);
      c.layout.data = ranks().size();
      c.layout.zero = zero;
      expect_equal(c, fmt::format("llama, {}, zero {}", name_of_entry(kind), zero));
    }
}

TEST(Averages, TensorAndPipelineRanks) {
  if (ranks().size() == 3) return;
  for (const bool tensor : {false, true}) {
    config::RunConfig c = with_averages(model::Family::kGpt2, OptimizerKind::kScheduleFree);
    (tensor ? c.layout.tensor : c.layout.pipeline) = 2;
    c.layout.data = ranks().size() / 2;
    c.precision = tensor ? compile::Precision::kFp32 : compile::Precision::kBf16;
    if (!tensor) c.optimizer.epsilon = 1e-3;
    expect_equal(c, fmt::format("gpt2, {}", tensor ? "tensor" : "pipeline"));
  }
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

// Tensor ranks divide some matrices of a layer, and all of them have the others: the down
// projections of latent attention, routers, GPT-2's table of positions.
config::RunConfig with_latent_muon(model::Family family) {
  config::RunConfig c = with_muon(family);
  c.batch.global = 4;
  c.model.latent = {
      .query_rank = 12, .key_value_rank = 16, .nope_width = 8, .rope_width = 4, .value_width = 6};
  c.model.experts = 4;
  c.model.expert_feed_forward = 24;
  c.model.shared_feed_forward = 16;
  c.model.dense_layers = {0};
  c.optimizer.groups =
      config::groups_of("[{match: [embed.*, '*.router.weight'], kind: muon, momentum: 0.9}]");
  return c;
}

TEST(Muon, TensorRanksAndReplicatedMatrices) {
  if (ranks().size() == 3) return;
  for (const int64_t zero : {0, 1, 2, 3}) {
    config::RunConfig c = with_latent_muon(zero == 0 || zero == 3 ? model::Family::kDeepseekV3
                                                                  : model::Family::kDeepseekV2);
    c.layout.tensor = 2;
    c.layout.sequence_parallel = zero % 2 == 1;
    c.layout.data = ranks().size() / 2;
    c.layout.zero = zero;
    expect_equal(c, fmt::format("deepseek, tensor, zero {}", zero));
  }
  config::RunConfig c = with_muon(model::Family::kGpt2);
  c.layout.tensor = 2;
  c.layout.data = ranks().size() / 2;
  expect_equal(c, "gpt2, tensor");
}

TEST(Muon, ExpertTensorAndPipelineRanksWithReplicatedMatrices) {
  if (ranks().size() != 4) return;
  config::RunConfig c = with_latent_muon(model::Family::kDeepseekV3);
  c.layout.tensor = 2;
  c.layout.data = 2;
  c.layout.expert = 2;
  c.layout.zero = 1;
  expect_equal(c, "deepseek_v3, experts and tensor");
  c.layout.data = c.layout.expert = 1;
  c.layout.zero = 0;
  c.layout.pipeline = 2;
  expect_equal(c, "deepseek_v3, pipeline and tensor");
}

}  // namespace
}  // namespace tessera::testing
