// Weights in 4 bits on several ranks: every layout trains as one rank does.
#include <gtest/gtest.h>

#include "tests/comm/ranks.h"
#include "tests/train/quantized_run.h"

namespace tessera::testing {
namespace {

train::Curve curve(const config::RunConfig& c, comm::World& world) {
  train::Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 1),
                         INT64_MAX, world, std::function<double()>());
  trainer.initialize();
  data::BatchSource source = train::batches(c, trainer.data_rank());
  train::Curve out;
  for (int s = 1; s <= 3; ++s) {
    const train::StepResult r = trainer.step(s, 1e-2, source);
    out.losses.push_back(r.loss);
    out.norms.push_back(r.grad_norm);
  }
  return out;
}

config::RunConfig wide(model::Family family) {
  config::RunConfig c = train::quantized(family);
  c.model.hidden = 256;
  c.model.heads = 4;
  c.model.kv_heads = 4;
  c.model.feed_forward = 512;
  c.batch.global = 8;
  c.batch.micro = 1;
  // Far above the rounding errors of gradients, which would else become steps of full size.
  c.optimizer.epsilon = 1e-4;
  c.compiler.poison = true;
  return c;
}

void expect_as_one_rank(config::RunConfig c, const std::function<void(config::RunConfig&)>& set) {
  const auto alone = comm::self_world();
  const train::Curve one = curve(c, *alone);
  set(c);
  train::expect_same(curve(c, ranks()), one, 2e-6);
}

class EveryZero : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Quantized, EveryZero, ::testing::Values(0, 1, 2, 3));

TEST_P(EveryZero, DataRanks) {
  expect_as_one_rank(wide(model::Family::kLlama), [&](config::RunConfig& c) {
    c.layout.data = ranks().size();
    c.layout.zero = GetParam();
  });
}

TEST(Quantized, TensorRanks) {
  for (const model::Family family :
       {model::Family::kLlama, model::Family::kNeox, model::Family::kT5, model::Family::kQwen3Moe})
    for (const bool sequence : {true, false}) {
      SCOPED_TRACE(name_of_entry(family));
      expect_as_one_rank(wide(family), [&](config::RunConfig& c) {
        c.layout.tensor = ranks().size();
        c.layout.sequence_parallel = sequence;
      });
    }
}

TEST(Quantized, TensorRanksWithOverlappedCollectives) {
  config::RunConfig c = wide(model::Family::kLlama);
  c.batch.micro = 2;
  expect_as_one_rank(c, [](config::RunConfig& x) {
    x.layout.tensor = ranks().size();
    x.compiler.tp_comm_overlap = true;
  });
}

TEST(Quantized, Stages) {
  for (const compile::PipelineSchedule schedule :
       {compile::PipelineSchedule::k1F1B, compile::PipelineSchedule::kZeroBubble}) {
    config::RunConfig c = wide(model::Family::kLlama);
    c.model.layers = 4;
    expect_as_one_rank(c, [&](config::RunConfig& x) {
      x.layout.pipeline = ranks().size();
      x.layout.pipeline_schedule = schedule;
    });
  }
}

TEST(Quantized, RecomputedLayersAndDividedSequences) {
  for (const char* recompute : {"selective", "full"})
    expect_as_one_rank(wide(model::Family::kLlama), [&](config::RunConfig& c) {
      c.layout.context = ranks().size();
      c.layout.recompute = recompute;
      c.layout.zero = 3;
    });
}

}  // namespace
}  // namespace tessera::testing
