// Steps of training with a capacity of experts in layouts of two and four ranks, against the same
// steps on one rank. Where ranks divide the tokens of a sequence, the pairs that an expert keeps
// depend on the choices of all of them.
#include <gtest/gtest.h>

#include "config/run_request.h"
#include "model/presets.h"
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
  c.model.router.capacity_factor = 0.75;
  c.model.router.balance_loss = 0.05;
  if (c.model.latent.exists())
    c.model.latent = {
        .query_rank = 12, .key_value_rank = 16, .nope_width = 4, .rope_width = 4, .value_width = 6};
  model::derive_sizes(c.model);
  c.layout = layout;
  c.run.threads = 1;
  c.batch.micro = 1;
  c.batch.global = 4;
  c.optimizer.epsilon = 1e-4;
  return c;
}

struct Step {
  double loss, norm, dropped;
};

std::vector<Step> steps_of(const config::RunConfig& c, comm::World& world) {
  train::Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 1),
                         INT64_MAX, world, {});
  trainer.initialize();
  data::BatchSource source = train::batches(c, trainer.data_rank());
  std::vector<Step> steps;
  for (int64_t step = 1; step <= 3; ++step) {
    const train::StepResult r = trainer.step(step, 1e-3, source);
    steps.push_back({r.loss, r.grad_norm, r.router->dropped.value()});
  }
  return steps;
}

struct Way {
  int64_t data, expert, tensor, pipeline, context, zero;
  bool sequence_parallel, balance;
};
constexpr Way kWays[] = {
    // data, expert, tensor, pipeline, context, zero
    {2, 1, 1, 1, 1, 1, false, false}, {2, 2, 1, 1, 1, 0, false, false},
    {2, 2, 1, 1, 1, 3, false, false}, {1, 1, 2, 1, 1, 0, true, false},
    {1, 1, 2, 1, 1, 0, false, false}, {1, 1, 1, 2, 1, 0, false, false},
    {1, 1, 1, 1, 2, 0, false, false}, {1, 1, 1, 1, 2, 0, false, true},
    {4, 4, 1, 1, 1, 2, false, false}, {4, 2, 1, 1, 1, 3, false, false},
    {2, 2, 2, 1, 1, 1, true, false},  {2, 2, 1, 2, 1, 0, false, false},
    {1, 1, 2, 2, 1, 0, true, false},  {1, 1, 2, 1, 2, 0, true, true},
    {2, 2, 1, 1, 2, 1, false, true},
};

class CapacityRanks : public ::testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Families, CapacityRanks,
                         ::testing::Values(model::Family::kMixtral, model::Family::kGptOss,
                                           model::Family::kDeepseekV3),
                         [](const auto& f) { return name_of_entry(f.param); });

TEST_P(CapacityRanks, EveryLayoutEqualsOneRank) {
  const auto alone = comm::self_world();
  const std::vector<Step> expected = steps_of(config_of(GetParam(), {}), *alone);
  EXPECT_GT(expected[0].dropped, 0.1);
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
    layout.context_balance = w.balance;
    if (compile::mesh_of(layout).ranks() != ranks().size()) continue;
    ++layouts;
    const std::vector<Step> found = steps_of(config_of(GetParam(), layout), ranks());
    for (size_t i = 0; i < found.size(); ++i) {
      SCOPED_TRACE(::testing::Message()
                   << "data " << w.data << ", expert " << w.expert << ", tensor " << w.tensor
                   << ", pipeline " << w.pipeline << ", context " << w.context << ", step " << i);
      EXPECT_NEAR(found[i].loss, expected[i].loss, 1e-5 * expected[i].loss);
      EXPECT_NEAR(found[i].norm, expected[i].norm, 1e-4 * expected[i].norm);
      EXPECT_NEAR(found[i].dropped, expected[i].dropped, 1e-9);
    }
  }
  EXPECT_GE(layouts, 7);
}

}  // namespace
}  // namespace tessera::testing
