// Objectives over pairs of answers on one rank: their gradients, and what they learn.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/preference_run.h"
#include "train/pair_metrics.h"

namespace tessera::train {
namespace {

using testing::batches_of;
using testing::kObjectives;
using testing::pair_batches;
using testing::pair_data;
using testing::preference_data;
using testing::preference_run;
using testing::run_on_bytes;

std::vector<StepResult> steps_of(const config::RunConfig& c, int64_t steps, double learning_rate,
                                 bool repeats) {
  const auto world = comm::self_world();
  Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2), INT64_MAX,
                  *world, {});
  trainer.initialize();
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

struct Trained {
  std::vector<ValidationResult> validations;
  StepResult step;
};

// Validates on the first n pairs for each of `counts`, and trains on all of them.
Trained validated(const config::RunConfig& c, const std::vector<int64_t>& counts) {
  const auto world = comm::self_world();
  Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2), INT64_MAX,
                  *world, {});
  trainer.initialize();
  const auto data = pair_data(c);
  Trained t;
  for (const int64_t n : counts) {
    std::vector<int64_t> done;
    t.validations.push_back(trainer.validate(*data, n, [&](int64_t d) { done.push_back(d); }));
    EXPECT_EQ(std::ssize(done), (n + c.batch.micro - 1) / c.batch.micro);
    EXPECT_EQ(done.back(), n);
  }
  data::BatchSource batches = batches_of(*data, c, 0);
  t.step = trainer.step(1, 1e-3, batches);
  return t;
}

// The loss of the weights on all pairs is that of the step which reads them all, and validation
// changes nothing.
TEST(Preferences, ValidationMeasuresWhatAStepOnTheSamePairsDoes) {
  for (const config::ObjectiveKind kind : kObjectives) {
    const config::RunConfig c = run_on_bytes(kind);
    const Trained t = validated(c, {8, 5});
    const ValidationResult& all = t.validations[0];
    const std::string name(name_of_entry(kind));
    EXPECT_EQ(all.tokens, 8) << name;
    EXPECT_NEAR(all.loss(), t.step.loss, 1e-12 * t.step.loss) << name;
    ASSERT_TRUE(all.preference) << name;
    const auto found = figures_of(*all.preference), expected = figures_of(*t.step.preference);
    ASSERT_EQ(found.size(), expected.size()) << name;
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].first, expected[i].first) << name;
      EXPECT_NEAR(found[i].second, expected[i].second, 1e-12 * std::fabs(expected[i].second))
          << name << " " << found[i].first;
    }
    EXPECT_EQ(t.validations[1].tokens, 5) << name;
    EXPECT_NE(t.validations[1].loss(), all.loss()) << name;
    EXPECT_EQ(validated(c, {}).step.loss, t.step.loss) << name;
    if (kind == config::ObjectiveKind::kKto) {
      EXPECT_GT(all.preference->kl.value_or(0), 1);
    }
  }
}

constexpr const char* kTwoPairs =
    "{\"prompt\":\"p\",\"chosen\":\"a\",\"rejected\":\"bb\"}\n"
    "{\"prompt\":\"q\",\"chosen\":\"c\",\"rejected\":\"dd\"}\n";

// The numbers of the answers of a pair: their log-probabilities and tokens.
std::vector<double> sums_of(std::initializer_list<std::array<double, 2>> log_probs) {
  std::vector<double> sums;
  for (const auto& [first, second] : log_probs) sums.insert(sums.end(), {first, 2, second, 3});
  return sums;
}

// β = 0.1; Δc − Δr is 1 for the first pair, and −3 for the second.
TEST(Preferences, LossesOfPairsByHand) {
  config::RunConfig c = run_on_bytes(config::ObjectiveKind::kDpo);
  c.objective.beta = 0.1;
  const auto data = preference_data(c, kTwoPairs);
  data->set_references({-4, -5, -5, -4});
  const auto losses = losses_of_pairs(c.objective, *data, sums_of({{-3, -5}, {-6, -2}}));
  const PairsResult r = result_of_pairs(c.objective, losses);
  EXPECT_EQ(r.pairs, 2);
  EXPECT_NEAR(losses[0].loss, std::log(1 + std::exp(-0.1)), 1e-15);
  EXPECT_NEAR(r.loss, (std::log(1 + std::exp(-0.1)) + std::log(1 + std::exp(0.3))) / 2, 1e-15);
  EXPECT_EQ(r.figures.accuracy, 0.5);
  EXPECT_NEAR(r.figures.chosen_reward, 0, 1e-15);
  EXPECT_NEAR(r.figures.rejected_reward, 0.1, 1e-15);
  EXPECT_NEAR(r.figures.margin(), -0.1, 1e-15);
  EXPECT_EQ(r.figures.chosen_log_prob, -4.5);
  EXPECT_EQ(r.figures.rejected_log_prob, -3.5);
}

// A pair of kto is two examples, the first of which is desirable. Δ is 1, 0, −1, 2, and that of the
// other answers 2, 1, 4, −1: z = 1.5.
TEST(Preferences, LossesOfExamplesByHand) {
  config::RunConfig c = run_on_bytes(config::ObjectiveKind::kKto);
  c.objective.beta = 0.1;
  const auto data = preference_data(c, kTwoPairs);
  ASSERT_EQ(data->pairs(), 4);
  data->set_references(std::vector<double>(8, -4));
  const auto sums = sums_of({{-3, -2}, {-4, -3}, {-5, 0}, {-2, -5}});
  const PairsResult r = result_of_pairs(c.objective, losses_of_pairs(c.objective, *data, sums));
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_NEAR(r.figures.kl.value_or(0), 1.5, 1e-15);
  EXPECT_NEAR(r.loss, (sigmoid(0.05) + sigmoid(-0.15) + sigmoid(0.25) + sigmoid(0.05)) / 4, 1e-15);
  EXPECT_NEAR(r.figures.margin(), (0.1 - 0.1) / 2 - (0 + 0.2) / 2, 1e-15);
  EXPECT_FALSE(r.figures.has_accuracy);
  // Without a divergence above 0, z is 0.
  const auto far = sums_of({{-3, -9}, {-4, -9}, {-5, -9}, {-2, -9}});
  EXPECT_EQ(result_of_pairs(c.objective, losses_of_pairs(c.objective, *data, far)).figures.kl, 0);
}

}  // namespace
}  // namespace tessera::train
