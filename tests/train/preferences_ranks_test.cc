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
  trainer.initialize();
  data::BatchSource source = pair_batches(c, trainer.data_rank());
  std::vector<train::StepResult> results;
  for (int64_t step = 1; step <= kStepsOfTrial; ++step)
    results.push_back(trainer.step(step, 1e-3, source));
  return results;
}

// Validates all but one of the pairs before and after a step.
std::vector<train::ValidationResult> validated(const config::RunConfig& c, comm::World& world) {
  train::Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 1),
                         INT64_MAX, world, {});
  trainer.initialize();
  const auto data = pair_data(c);
  data::BatchSource source = batches_of(*data, c, trainer.data_rank());
  std::vector<train::ValidationResult> results;
  results.push_back(trainer.validate(*data, 7, [](int64_t) {}));
  trainer.step(1, 1e-3, source);
  results.push_back(trainer.validate(*data, 7, [](int64_t) {}));
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

void expect_one_rank(config::RunConfig c, const std::vector<compile::Layout>& layouts) {
  const auto alone = comm::self_world();
  const std::vector<train::StepResult> expected = trained(c, *alone);
  const bool kto = c.objective.kind == config::ObjectiveKind::kKto;
  EXPECT_EQ(expected.back().preference->kl.value_or(0) > 0.1, kto);
  ASSERT_FALSE(layouts.empty());
  for (const compile::Layout& l : layouts) {
    c.layout = l;
    const std::vector<train::StepResult> got = trained(c, ranks());
    for (size_t s = 0; s < expected.size(); ++s) {
      const train::StepResult &a = got[s], &b = expected[s];
      const std::string where =
          fmt::format("{}, step {}, data {} context {} tensor {} pipeline {} expert {} zero {}",
                      name_of_entry(c.objective.kind), s + 1, l.data, l.context, l.tensor,
                      l.pipeline, l.expert, l.zero);
      EXPECT_NEAR(a.loss, b.loss, 4e-6 * b.loss) << where;
      EXPECT_NEAR(a.grad_norm, b.grad_norm, 2e-5 * b.grad_norm) << where;
      EXPECT_NEAR(a.preference->margin(), b.preference->margin(), 1e-5) << where;
      EXPECT_NEAR(a.preference->kl.value_or(0), b.preference->kl.value_or(0), 1e-5) << where;
    }
  }
}

void expect_validation_of_one_rank(config::RunConfig c,
                                   const std::vector<compile::Layout>& layouts) {
  const auto alone = comm::self_world();
  const std::vector<train::ValidationResult> expected = validated(c, *alone);
  ASSERT_FALSE(layouts.empty());
  EXPECT_NE(expected[0].loss(), expected[1].loss());
  for (const compile::Layout& l : layouts) {
    c.layout = l;
    const std::vector<train::ValidationResult> got = validated(c, ranks());
    for (size_t i = 0; i < expected.size(); ++i) {
      const train::ValidationResult &a = got[i], &b = expected[i];
      const std::string where = fmt::format(
          "{}, after {} steps, data {} context {} tensor {} pipeline {} expert {} zero {}",
          name_of_entry(c.objective.kind), i, l.data, l.context, l.tensor, l.pipeline, l.expert,
          l.zero);
      EXPECT_EQ(a.tokens, 7) << where;
      EXPECT_NEAR(a.loss(), b.loss(), 4e-6 * b.loss()) << where;
      EXPECT_NEAR(a.preference->margin(), b.preference->margin(), 1e-5) << where;
      EXPECT_EQ(a.preference->accuracy, b.preference->accuracy) << where;
      EXPECT_NEAR(a.preference->kl.value_or(0), b.preference->kl.value_or(0), 1e-5) << where;
    }
  }
}

TEST(Preferences, ValidationInEveryLayoutIsThatOfOneRank) {
  for (const config::ObjectiveKind kind : kObjectives)
    expect_validation_of_one_rank(run_on_bytes(kind), layouts(ranks().size()));
}

TEST(Preferences, EveryLayoutIsOneRank) {
  for (const config::ObjectiveKind kind : kObjectives)
    expect_one_rank(preference_run(kind), layouts(ranks().size()));
}

TEST(Preferences, ExpertsAndContextByHeads) {
  std::vector<compile::Layout> layouts;
  for (const int64_t tensor : {1, 2}) {
    compile::Layout experts, heads;
    experts.data = experts.expert = 2;
    heads.context = 2;
    heads.context_method = compile::ContextMethod::kHeads;
    experts.tensor = heads.tensor = tensor;
    if (2 * tensor == ranks().size()) layouts = {experts, heads};
  }
  for (const config::ObjectiveKind kind :
       {config::ObjectiveKind::kDpo, config::ObjectiveKind::kKto, config::ObjectiveKind::kReward}) {
    const auto with_experts = [](config::RunConfig c) {
      model::apply_family(model::Family::kMixtral, c.model);
      c.model.experts = 4;
      c.model.router.balance_loss = c.model.router.z_loss = 0;
      model::derive_sizes(c.model);
      return c;
    };
    expect_validation_of_one_rank(with_experts(run_on_bytes(kind)), layouts);
    config::RunConfig c = with_experts(preference_run(kind));
    c.batch.warmup_sizes = {4};
    c.batch.warmup_steps_per_size = 1;
    expect_one_rank(c, layouts);
  }
}

}  // namespace
}  // namespace tessera::testing
