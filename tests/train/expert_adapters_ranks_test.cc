// Steps of training with adapters of experts in layouts of two and four ranks, against the same
// steps on one rank: the adapters are divided as the matrices that they change are.
#include <gtest/gtest.h>

#include "compile/memory/memory_plan.h"
#include "config/run_request.h"
#include "tests/comm/ranks.h"
#include "tests/train/tiny_run.h"
#include "train/trainer.h"

namespace tessera::testing {
namespace {

config::RunConfig config_of(model::Family family, const compile::Layout& layout) {
  config::RunConfig c = train::tiny(family);
  c.model.kv_heads = 4;
  c.model.experts = 4;
  c.model.experts_per_token = 2;
  c.model.expert_feed_forward = 16;
  if (c.model.latent.exists())
    c.model.latent = {
        .query_rank = 12, .key_value_rank = 16, .nope_width = 4, .rope_width = 4, .value_width = 6};
  model::derive_sizes(c.model);
  c.layout = layout;
  c.run.threads = 1;
  c.batch.micro = 1;
  c.batch.global = 4;
  // Far above the rounding errors of gradients, which would else become steps of full size.
  c.optimizer.epsilon = 1e-4;
  c.lora.rank = 4;
  c.lora.alpha = 32;
  c.lora.targets = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj", "*.attn.out.*"};
  c.compiler.poison = true;
  return c;
}

// Losses and norms of five steps.
train::Curve curve(const config::RunConfig& c, comm::World& world) {
  train::Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 1),
                         INT64_MAX, world, {});
  EXPECT_EQ(trainer.engine().arena_bytes(), compile::memory_plan(trainer.program()).arena);
  trainer.initialize();
  data::BatchSource source = train::batches(c, trainer.data_rank());
  train::Curve out;
  for (int64_t step = 1; step <= 5; ++step) {
    const train::StepResult r = trainer.step(step, 1e-2, source);
    EXPECT_TRUE(r.finite);
    out.losses.push_back(r.loss);
    out.norms.push_back(r.grad_norm);
  }
  return out;
}

struct Way {
  int64_t data, expert, tensor, pipeline, context, zero;
  bool sequence_parallel = false;
  const char* recompute = "none";
  compile::PipelineSchedule schedule = compile::PipelineSchedule::k1F1B;
};
constexpr auto kZeroBubble = compile::PipelineSchedule::kZeroBubble;
constexpr Way kWays[] = {
    // data, expert, tensor, pipeline, context, zero
    {2, 1, 1, 1, 1, 0},
    {2, 1, 1, 1, 1, 1},
    {2, 1, 1, 1, 1, 2},
    {2, 1, 1, 1, 1, 3},
    {2, 2, 1, 1, 1, 0},
    {2, 2, 1, 1, 1, 3, false, "full"},
    {1, 1, 2, 1, 1, 0},
    {1, 1, 2, 1, 1, 0, true, "selective"},
    {1, 1, 1, 2, 1, 0},
    {1, 1, 1, 2, 1, 0, false, "none", kZeroBubble},
    {1, 1, 1, 1, 2, 1},
    {4, 2, 1, 1, 1, 2, false, "selective"},
    {4, 4, 1, 1, 1, 1},
    {2, 2, 2, 1, 1, 1, true},
    {2, 2, 1, 2, 1, 0, false, "full"},
    {2, 2, 1, 2, 1, 2, false, "none", kZeroBubble},
    {2, 2, 1, 1, 2, 3},
    {1, 1, 2, 1, 2, 3, true, "full"},
    {1, 1, 2, 2, 1, 0, true},
};

class ExpertAdapterRanks : public ::testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Families, ExpertAdapterRanks,
                         ::testing::Values(model::Family::kMixtral, model::Family::kGptOss,
                                           model::Family::kDeepseekV3),
                         [](const auto& f) { return name_of_entry(f.param); });

TEST_P(ExpertAdapterRanks, EveryLayoutEqualsOneRank) {
  const auto alone = comm::self_world();
  const train::Curve expected = curve(config_of(GetParam(), {}), *alone);
  EXPECT_LT(expected.losses[4], expected.losses[0] - 0.01);
  int layouts = 0;
  for (const Way& w : kWays) {
    compile::Layout layout;
    layout.data = w.data;
    layout.expert = w.expert;
    layout.tensor = w.tensor;
    layout.pipeline = w.pipeline;
    layout.context = w.context;
    layout.zero = w.zero;
    layout.sequence_parallel = w.sequence_parallel;
    layout.recompute = w.recompute;
    layout.pipeline_schedule = w.schedule;
    if (compile::mesh_of(layout).ranks() != ranks().size()) continue;
    ++layouts;
    SCOPED_TRACE(::testing::Message()
                 << "data " << w.data << ", expert " << w.expert << ", tensor " << w.tensor
                 << ", pipeline " << w.pipeline << ", context " << w.context << ", zero " << w.zero
                 << ", recompute " << w.recompute);
    train::expect_same(curve(config_of(GetParam(), layout), ranks()), expected, 1e-5);
  }
  EXPECT_GE(layouts, 8);
}

// The gradient of the sum of a matrix and its adapter is rounded to bf16.
TEST_P(ExpertAdapterRanks, InBf16) {
  config::RunConfig c = config_of(GetParam(), {});
  c.precision = compile::Precision::kBf16;
  const auto alone = comm::self_world();
  const train::Curve expected = curve(c, *alone);
  c.layout.data = ranks().size();
  c.layout.expert = 2;
  c.layout.zero = 2;
  const train::Curve found = curve(c, ranks());
  // A score that is rounded may send a token to another expert.
  for (size_t i = 0; i < found.losses.size(); ++i)
    EXPECT_NEAR(found.losses[i], expected.losses[i], 5e-3 * expected.losses[i]);
}

}  // namespace
}  // namespace tessera::testing
