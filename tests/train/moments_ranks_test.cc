// Moments in 8 bits on two to four ranks: blocks are those of one rank in every layout, so all
// state agrees as with moments in f32.
#include <gtest/gtest.h>

#include "tests/config/optimizer_groups.h"
#include "tests/train/tiny_run.h"
#include "tests/train/verified_run.h"

namespace tessera::testing {
namespace {

// Wide enough for whole blocks on each of two tensor-parallel ranks.
config::RunConfig coded(model::Family family, OptimizerKind kind = OptimizerKind::kAdamW) {
  config::RunConfig c = train::tiny(family);
  c.model.hidden = 128;
  c.model.heads = c.model.kv_heads = 2;
  c.model.vocabulary_multiple = 128;
  c.model.feed_forward = 256;
  c.model.context = c.data.sequence_length = 16;
  model::derive_sizes(c.model);
  c.run.threads = 1;
  c.batch.micro = 1;
  c.batch.global = 4;
  c.optimizer = config::optimizer_defaults(kind);
  // An epsilon for which no weight is moved by what is but a rounding of its gradient.
  c.optimizer.epsilon = 1e-4;
  c.optimizer.moment_dtype = config::MomentType::k8Bit;
  return c;
}

TEST(MomentsIn8Bits, ZeroOnDataRanks) {
  const auto expect = [](OptimizerKind kind, int64_t zero) {
    config::RunConfig c = coded(model::Family::kLlama, kind);
    c.layout.data = ranks().size();
    c.layout.zero = zero;
    expect_equal(c, fmt::format("llama, {}, zero {}", name_of_entry(kind), zero));
  };
  for (const int64_t zero : {0, 1, 2, 3}) expect(OptimizerKind::kAdamW, zero);
  expect(OptimizerKind::kLion, 1);
  expect(OptimizerKind::kSgd, 3);
}

TEST(MomentsIn8Bits, TensorRanksWithBiases) {
  if (ranks().size() == 3) return;
  for (const model::Family family : {model::Family::kNeox, model::Family::kGpt2})
    for (const int64_t zero : {0, 3}) {
      config::RunConfig c = coded(family);
      c.layout.tensor = 2;
      c.layout.data = ranks().size() / 2;
      c.layout.zero = zero;
      expect_equal(c, fmt::format("{}, tensor, zero {}", name_of_entry(family), zero));
    }
}

// Pairs of tensor ranks have the same keys and values, whose weights are parts of larger ones.
TEST(MomentsIn8Bits, TensorRanksThatShareKeysAndValues) {
  if (ranks().size() == 3) return;
  config::RunConfig c = coded(model::Family::kLlama);
  c.model.kv_heads = 1;
  c.layout.tensor = 2;
  c.layout.data = ranks().size() / 2;
  c.layout.zero = 1;
  expect_equal(c, "llama, copies of keys and values");
}

TEST(MomentsIn8Bits, PipelineExpertAndContextRanks) {
  if (ranks().size() == 3) return;
  config::RunConfig c = coded(model::Family::kGpt2);
  c.layout.pipeline = 2;
  c.layout.data = ranks().size() / 2;
  c.layout.zero = 1;
  c.precision = compile::Precision::kBf16;
  c.optimizer.epsilon = 1e-3;
  c.optimizer.ema = 0.75;
  expect_equal(c, "gpt2, pipeline");
  c = coded(model::Family::kMixtral);
  c.model.experts = 4;
  c.layout.data = ranks().size();
  c.layout.expert = 2;
  c.layout.zero = 2;
  expect_equal(c, "mixtral, experts");
  c = coded(model::Family::kLlama);
  c.layout.context = 2;
  c.layout.data = ranks().size() / 2;
  expect_equal(c, "llama, context");
}

}  // namespace
}  // namespace tessera::testing
