// Objectives over pairs of answers on one rank: their gradients, and what they learn.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/preference_run.h"

namespace tessera::train {
namespace {

using testing::kObjectives;
using testing::pair_batches;
using testing::preference_run;

std::vector<StepResult> steps_of(const config::RunConfig& c, int64_t steps, double learning_rate,
                                 bool repeats) {
  const auto world = comm::self_world();
  Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2), INT64_MAX,
                  *world, {});
  trainer.initialise();
  std::vector<StepResult> results;
  for (int64_t s = 1; s <= steps; ++s) {
    data::BatchSource source = pair_batches(c, 0);
    results.push_back(trainer.step(repeats ? 1 : s, learning_rate, source));
    EXPECT_TRUE(results.back().finite);
  }
  return results;
}

// A small step against the gradient lowers the loss by the rate times the squared norm.
TEST(Preferences, GradientsAreSlopesOfTheLosses) {
  for (const config::ObjectiveKind kind : kObjectives) {
    config::RunConfig c = preference_run(kind);
    c.optimizer = config::optimizer_defaults(OptimizerKind::kSgd);
    c.optimizer.clip_norm = 0;
    c.optimizer.weight_decay = 0;
    c.optimizer.beta1 = 0;
    // The z of kto changes with the weights. With a small beta this cancels between the desirable
    // and the undesirable examples, but a change of the loss then needs a larger one of the
    // weights.
    const bool kto = kind == config::ObjectiveKind::kKto;
    if (kto) c.objective.beta = 1e-3;
    const StepResult before = steps_of(c, 1, 1e-6, true).at(0);
    const double rate = (kto ? 1e-5 : 1e-3) * before.loss / (before.grad_norm * before.grad_norm);
    const std::vector<StepResult> r = steps_of(c, 2, rate, true);
    const double expected = rate * r[0].grad_norm * r[0].grad_norm;
    EXPECT_EQ(r[0].tokens, 8);  // pairs
    EXPECT_NEAR(r[0].loss - r[1].loss, expected, 0.05 * expected) << name_of_entry(kind);
  }
}

TEST(Preferences, LossesFallAndMarginsGrow) {
  for (const config::ObjectiveKind kind : kObjectives) {
    const std::vector<StepResult> r = steps_of(preference_run(kind), 30, 3e-3, true);
    EXPECT_LT(r.back().loss, 0.95 * r.front().loss) << name_of_entry(kind);
    ASSERT_TRUE(r.back().preference);
    EXPECT_GT(r.back().preference->margin(), r.front().preference->margin()) << name_of_entry(kind);
  }
}

TEST(Preferences, RewardsAreBetaTimesTheDifferences) {
  config::RunConfig c = preference_run(config::ObjectiveKind::kDpo);
  c.objective.beta = 0.1;
  const StepResult r = steps_of(c, 1, 1e-3, true).at(0);
  const PreferenceMetrics& m = *r.preference;
  // Means over the pairs: rewards are beta times the log-probabilities less those of the reference,
  // which are -20 - s % 3 and -21 + (s % 4) / 2 for sample s of 8.
  EXPECT_NEAR(m.chosen_reward, 0.1 * (m.chosen_log_prob + 20 + 7.0 / 8), 1e-9);
  EXPECT_NEAR(m.rejected_reward, 0.1 * (m.rejected_log_prob + 21 - 6.0 / 8), 1e-9);
}

TEST(Preferences, RecomputationGivesTheSameBits) {
  for (const config::ObjectiveKind kind : kObjectives) {
    config::RunConfig c = preference_run(kind);
    c.model.dropout = 0.1;
    const std::vector<StepResult> plain = steps_of(c, 2, 1e-3, false);
    for (const char* policy : {"selective", "full"}) {
      c.layout.recompute = policy;
      const std::vector<StepResult> other = steps_of(c, 2, 1e-3, false);
      for (size_t s = 0; s < 2; ++s) {
        EXPECT_EQ(plain[s].loss, other[s].loss) << policy << " " << name_of_entry(kind);
        EXPECT_EQ(plain[s].grad_norm, other[s].grad_norm) << policy << " " << name_of_entry(kind);
      }
    }
  }
}

TEST(Preferences, AllPrecisions) {
  for (const config::ObjectiveKind kind : kObjectives) {
    const double expected = steps_of(preference_run(kind), 1, 1e-3, true).at(0).loss;
    for (const compile::Precision p :
         {compile::Precision::kBf16, compile::Precision::kBf16Sr, compile::Precision::kFp16}) {
      config::RunConfig c = preference_run(kind);
      c.precision = p;
      EXPECT_NEAR(steps_of(c, 1, 1e-3, true).at(0).loss, expected, 0.03 * expected)
          << name_of_entry(kind) << " " << name_of_entry(p);
    }
  }
}

// Adapters that add nothing leave the log-probabilities of the reference.
TEST(Preferences, AdaptersChangeNothingAtFirst) {
  config::RunConfig c = preference_run(config::ObjectiveKind::kDpo);
  const double plain = steps_of(c, 1, 1e-3, true).at(0).loss;
  c.lora.rank = 4;
  EXPECT_NEAR(steps_of(c, 1, 1e-3, true).at(0).loss, plain, 1e-6 * plain);
  c.objective.reference = config::ReferenceSource::kAdaptersOff;
  EXPECT_NEAR(steps_of(c, 1, 1e-3, true).at(0).loss, plain, 1e-6 * plain);
}

}  // namespace
}  // namespace tessera::train
