// M14: which losses are divergence, which are a spike, and which are noise.
#include "train/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "train/step_judge.h"

namespace tessera::train {
namespace {

constexpr double kUniform = 9.0;  // of 8,103 tokens

DivergenceGuard guard_after(const std::vector<double>& losses,
                            config::DivergenceSection rule = {}) {
  DivergenceGuard g(rule, kUniform);
  for (const double x : losses) g.add(x);
  return g;
}

std::vector<double> steps(int n, double first, double last) {
  std::vector<double> out;
  for (int i = 0; i < n; ++i) out.push_back(first + (last - first) * i / std::max(1, n - 1));
  return out;
}

TEST(Divergence, M14_ALossThatStaysFarAboveItsBeginningIsDivergence) {
  std::vector<double> losses = steps(11, 9, 8.5);
  for (int high = 0; high < 20; ++high) {
    EXPECT_EQ(guard_after(losses).diverged(), high >= 10) << high;  // half of the last 20
    losses.push_back(119);
  }
  EXPECT_TRUE(guard_after(losses).diverged());
  EXPECT_TRUE(guard_after(losses).diverged_at_end());
  config::DivergenceSection off;
  off.ratio = 0;
  EXPECT_FALSE(guard_after(losses, off).diverged());
  EXPECT_FALSE(guard_after(losses, off).is_high());
}

// A run that ends before it has `steps` losses.
TEST(Divergence, M14_AShortRunIsJudgedByItsSteps) {
  EXPECT_TRUE(guard_after({9, 119, 4.6e19}).diverged_at_end());
  EXPECT_TRUE(guard_after({9, 119}).diverged_at_end());
  EXPECT_FALSE(guard_after({9}).diverged_at_end());
  EXPECT_FALSE(guard_after({9, 40, 30, 14, 9.5}).diverged_at_end());  // it recovers
  EXPECT_FALSE(guard_after({}).diverged_at_end());
}

TEST(Divergence, M14_NoiseFallingAndFineTuningAreNot) {
  std::mt19937 random(7);
  std::lognormal_distribution<double> heavy(0, 0.8);
  // A fine-tuning run of small batches: losses of 0.1 to 9, the first a low one.
  DivergenceGuard tuned({}, kUniform);
  tuned.add(0.1);
  for (int i = 0; i < 2000; ++i) {
    tuned.add(std::min(9.0, heavy(random)));
    ASSERT_FALSE(tuned.is_high()) << i;
  }
  // A model whose loss starts high because its head is not scaled.
  EXPECT_FALSE(guard_after(steps(100, 300, 4)).diverged_at_end());
  // A stage of other data doubles the loss.
  std::vector<double> stages = steps(100, 9, 2);
  for (int i = 0; i < 100; ++i) stages.push_back(4.5);
  EXPECT_FALSE(guard_after(stages).diverged_at_end());
  // A hot start that recovers within 20 steps.
  std::vector<double> hot = {9};
  for (int i = 0; i < 9; ++i) hot.push_back(25);
  for (int i = 0; i < 30; ++i) hot.push_back(8);
  DivergenceGuard recovering({}, kUniform);
  for (const double x : hot) {
    recovering.add(x);
    EXPECT_FALSE(recovering.diverged());
  }
  EXPECT_FALSE(recovering.is_high());
}

// The first loss is state: a resumed run is compared with where the run began.
TEST(Divergence, M14_AResumedRunKeepsItsBeginning) {
  DivergenceGuard before = guard_after(steps(10, 9, 3));
  Tree state = Tree::object();
  before.save(state);
  DivergenceGuard after({}, kUniform);
  after.restore(state);
  EXPECT_EQ(after.first_loss(), 9);
  for (int i = 0; i < 20; ++i) after.add(14);
  EXPECT_TRUE(after.diverged());
  DivergenceGuard old({}, kUniform);
  old.restore(Tree());
  for (int i = 0; i < 30; ++i) old.add(3);
  EXPECT_EQ(old.first_loss(), 3);
  EXPECT_FALSE(old.diverged_at_end());
}

TEST(Divergence, M14_ASpikeIsReportedOnce) {
  std::mt19937 random(3);
  std::normal_distribution<double> noise(0, 0.05);
  DivergenceGuard g({}, kUniform);
  for (int i = 0; i < 500; ++i) {
    g.add(8 * std::exp(-i / 60.0) + 3 + noise(random));
    ASSERT_FALSE(g.spiked()) << i;
  }
  g.add(5);
  EXPECT_TRUE(g.spiked());
  EXPECT_NEAR(g.median_before(), 3, 0.1);
  for (int i = 0; i < 15; ++i) {
    g.add(5);
    EXPECT_FALSE(g.spiked());
  }
}

config::RunConfig config(compile::Precision p) {
  config::RunConfig c;
  c.source = "run.yaml";
  c.model.vocabulary = 8103;
  c.precision = p;
  c.loss_scale.initial = 4;
  c.loss_scale.hysteresis = 1;
  return c;
}

StepResult result(double loss, bool finite = true) {
  return {.step = 3, .loss = loss, .grad_norm = finite ? 1.0 : NAN, .tokens = 8, .finite = finite};
}

TEST(StepJudge, M2_ALossThatIsNotFiniteIsNeverASkippedStep) {
  for (const compile::Precision p :
       {compile::Precision::kFp32, compile::Precision::kFp16, compile::Precision::kBf16})
    for (const double loss : {NAN, -NAN, INFINITY, -INFINITY})
      for (const bool finite : {true, false}) {
        StepJudge judge(config(p));
        EXPECT_EQ(judge.judge(result(loss, finite)), StepVerdict::kBadNumber);
        EXPECT_EQ(judge.loss_scale(), p == compile::Precision::kFp16 ? 4 : 1);
        const std::string text = judge.bad_number_text(result(loss, finite), false, "x", "");
        EXPECT_EQ(text.find("-nan"), std::string::npos) << text;
      }
}

TEST(StepJudge, E5_AGradientOfExactlyZeroIsReportedOnce) {
  const auto warnings = [](const std::vector<StepResult>& steps) {
    StepJudge judge(config(compile::Precision::kFp32));
    std::vector<int64_t> at;
    for (const StepResult& r : steps) {
      EXPECT_EQ(judge.judge(r), StepVerdict::kGood);
      const std::string text = judge.warning(r, 2);
      if (text.empty()) continue;
      EXPECT_NE(text.find("the model no longer learns"), std::string::npos) << text;
      EXPECT_NE(text.find("--from-step"), std::string::npos) << text;
      at.push_back(r.step);
    }
    return at;
  };
  std::vector<StepResult> dead, weak, solved;
  for (int64_t s = 1; s <= 30; ++s) {
    StepResult r = {.step = s, .loss = 3, .grad_norm = s < 10 ? 1.0 : 0.0, .tokens = 8};
    r.finite = true;
    dead.push_back(r);
    r.grad_norm = s % 5 == 0 ? 1e-30 : 0;
    weak.push_back(r);
    r.grad_norm = r.loss = 0;
    solved.push_back(r);
  }
  EXPECT_EQ(warnings(dead), std::vector<int64_t>{14});
  EXPECT_EQ(warnings(weak), std::vector<int64_t>{});
  EXPECT_EQ(warnings(solved), std::vector<int64_t>{});
}

// From 4 to the smallest scale of 1 are two halvings; the third overflow in a row ends the run.
TEST(StepJudge, M2_OverflowsEndAtTheLeastScale) {
  StepJudge judge(config(compile::Precision::kFp16));
  EXPECT_EQ(judge.judge(result(9, false)), StepVerdict::kSkipped);
  EXPECT_EQ(judge.judge(result(9, false)), StepVerdict::kSkipped);
  EXPECT_EQ(judge.loss_scale(), 1);
  EXPECT_EQ(judge.judge(result(9, false)), StepVerdict::kBadNumber);
  const std::string text = judge.bad_number_text(result(9, false), false, "x", "run/checkpoints/2");
  EXPECT_NE(text.find("lowest loss scale"), std::string::npos) << text;
  EXPECT_NE(text.find("Last good checkpoint: run/checkpoints/2. To go back to it: tessera train "
                      "run.yaml --from-step 2."),
            std::string::npos)
      << text;
  EXPECT_NE(judge.bad_number_text(result(9, false), false, "x", "").find("no good checkpoint"),
            std::string::npos);
  EXPECT_EQ(text.find("-nan"), std::string::npos) << text;
  StepJudge other(config(compile::Precision::kBf16));
  EXPECT_EQ(other.judge(result(9, false)), StepVerdict::kBadNumber);
}

}  // namespace
}  // namespace tessera::train
