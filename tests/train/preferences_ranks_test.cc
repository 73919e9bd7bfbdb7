// Objectives over pairs of answers on the ranks of a test, against the same on one rank.
#include <gtest/gtest.h>

#include "tests/comm/ranks.h"
#include "tests/train/preference_run.h"

namespace tessera::testing {
namespace {

constexpr int64_t kStepsOfTrial = 3;

std::vector<train::StepResult> trained(const config::RunConfig& c, comm::World& world) {
  train::Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 1),
                         INT64_MAX, world, {});
  trainer.initialise();
  data::BatchSource source = pair_batches(c, trainer.data_rank());
  std::vector<train::StepResult> results;
  for (int64_t step = 1; step <= kStepsOfTrial; ++step)
    results.push_back(trainer.step(step, 1e-3, source));
  return results;
}

std::vector<compile::Layout> layouts(int64_t ranks) {
  std::vector<compile::Layout> all;
  const auto add = [&](int64_t data, int64_t context, int64_t tensor, int64_t pipeline,
                       int64_t zero, bool sequence_parallel = true) {
    compile::Layout l;
    l.data = data;
    l.context = context;
    l.tensor = tensor;
    l.pipeline = pipeline;
    l.zero = zero;
    l.sequence_parallel = sequence_parallel;
    if (data * context * tensor * pipeline == ranks) all.push_back(l);
  };
  add(2, 1, 1, 1, 1);
  add(2, 1, 1, 1, 3);
  add(1, 2, 1, 1, 0);
  add(1, 1, 2, 1, 0);
  add(1, 1, 2, 1, 0, false);
  add(1, 1, 1, 2, 0);
  add(2, 1, 2, 1, 2);
  add(1, 2, 2, 1, 0);
  add(1, 1, 2, 2, 0);
  add(2, 2, 1, 1, 3);
  return all;
}

TEST(Preferences, EveryLayoutIsOneRank) {
  for (const config::ObjectiveKind kind : kObjectives) {
    config::RunConfig c = preference_run(kind);
    const auto alone = comm::self_world();
    const std::vector<train::StepResult> expected = trained(c, *alone);
    if (kind == config::ObjectiveKind::kKto) {
      EXPECT_GT(expected.back().preference->kl.value_or(0), 0.1);
    }
    ASSERT_FALSE(layouts(ranks().size()).empty());
    for (const compile::Layout& l : layouts(ranks().size())) {
      c.layout = l;
      const std::vector<train::StepResult> got = trained(c, ranks());
      for (size_t s = 0; s < expected.size(); ++s) {
        const std::string where = fmt::format(
            "{}, step {}, data {} context {} tensor {} pipeline {} zero {}", name_of_entry(kind),
            s + 1, l.data, l.context, l.tensor, l.pipeline, l.zero);
        EXPECT_NEAR(got[s].loss, expected[s].loss, 4e-6 * expected[s].loss) << where;
        EXPECT_NEAR(got[s].grad_norm, expected[s].grad_norm, 2e-5 * expected[s].grad_norm) << where;
        EXPECT_NEAR(got[s].preference->margin(), expected[s].preference->margin(), 1e-5) << where;
        EXPECT_NEAR(got[s].preference->kl.value_or(0), expected[s].preference->kl.value_or(0), 1e-5)
            << where;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::testing
