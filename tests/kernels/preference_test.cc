// Losses of preferences against worked numbers, computed with NumPy in double precision from
// log-probabilities of two pairs, and gradients against differences of losses.
#include "kernels/preference.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "kernels/preference_pair.h"
#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

using Kind = PreferenceLossKind;
using Numbers = std::vector<double>;

// Sums of the log-probabilities of the tokens, and their numbers:
//   pair 1  chosen −.5 −1 −.25      rejected −1 −2
//   pair 2  chosen −2 −1.5          rejected −.75 −.5 −1.25 −1
const Numbers kSums = {-1.75, 3, -3, 2, -3.5, 2, -3.5, 4};
// The same of the reference model: −.75 −1.25 −.5, −.5 −1.5; −1.75 −1.25, −1 −.5 −1 −1.5.
const Numbers kReferences = {-2.5, -2, 0, -3, -4, 0};

struct Result {
  std::array<double, 2> report = {};
  std::array<double, kPreferenceFigures> figures = {};
  Numbers d_sums;
};

Result run(const PreferenceForm& form, Numbers sums, Numbers references) {
  const int64_t rows = static_cast<int64_t>(sums.size()) / 4;
  Result r;
  r.d_sums.resize(sums.size());
  PreferenceLossArgs a;
  a.form = form;
  a.sums = {sums.data(), DType::kF64, {rows, 2, 2}};
  a.references = {references.data(), DType::kF64, {rows, 3}};
  a.report = r.report.data();
  a.figures = r.figures.data();
  a.d_sums = {r.d_sums.data(), DType::kF64, {rows, 2, 2}};
  launch(Cpu(), {}, a);
  return r;
}

double loss_of_pair(const PreferenceForm& form, size_t pair) {
  return pair_loss(form, kSums.data() + 4 * pair, kReferences.data() + 3 * pair).loss;
}

void expect_losses(const PreferenceForm& form, double first, double second, double mean) {
  EXPECT_NEAR(loss_of_pair(form, 0), first, 1e-11);
  EXPECT_NEAR(loss_of_pair(form, 1), second, 1e-11);
  const Result r = run(form, kSums, kReferences);
  EXPECT_EQ(r.report[1], 2);
  EXPECT_NEAR(r.report[0] / 2, mean, 1e-11);
}

TEST(Preference, Dpo) {
  const PreferenceForm form = {.kind = Kind::kDpo, .beta = 0.1};
  expect_losses(form, 0.609470430663, 0.744396660074, 0.676933545368);
  const Result r = run(form, kSums, kReferences);
  EXPECT_NEAR(r.d_sums[0] / 2, -0.022818065638, 1e-11);
  EXPECT_NEAR(r.d_sums[4] / 2, -0.026248959374, 1e-11);
  EXPECT_EQ(r.d_sums[0], -r.d_sums[2]);
  // Rewards 0.1 (0.75, −1; −0.5, 0.5): one pair of two is in the right order.
  EXPECT_NEAR(r.figures[0], 0.025, 1e-12);
  EXPECT_NEAR(r.figures[1], -0.05, 1e-12);
  EXPECT_EQ(r.figures[2], 1);
  EXPECT_NEAR(r.figures[3], -5.25, 1e-12);
  EXPECT_NEAR(r.figures[4], -6.5, 1e-12);
}

TEST(Preference, DpoWithNoisyPreferences) {
  expect_losses({.kind = Kind::kDpo, .beta = 0.1, .label_smoothing = 0.1}, 0.626970430663,
                0.734396660074, 0.680683545368);
}

TEST(Preference, Ipo) {
  expect_losses({.kind = Kind::kIpo, .mean = true, .beta = 0.1}, 18.0625, 28.890625, 23.4765625);
  expect_losses({.kind = Kind::kIpo, .beta = 0.1}, 10.5625, 36, 23.28125);
}

TEST(Preference, Simpo) {
  expect_losses({.kind = Kind::kSimpo, .mean = true, .beta = 0.1, .gamma = 0.5}, 0.918012654026,
                1.029435142035, 0.973723898031);
  expect_losses({.kind = Kind::kSimpo, .mean = true, .beta = 2, .gamma = 1}, 0.360884815934,
                2.811967589003, 1.586426202469);
}

TEST(Preference, Orpo) {
  Numbers references = kReferences;
  references[2] = references[5] = 2.0 / 5;  // two pairs, five tokens of chosen answers
  const PreferenceForm form = {.kind = Kind::kOrpo, .mean = true, .beta = 0.1};
  const Result r = run(form, kSums, references);
  EXPECT_NEAR(r.report[0] / 2, 1.134315459225, 1e-11);
  EXPECT_NEAR(r.figures[5] / 2, 1.05, 1e-12);  // the cross-entropy
}

TEST(Preference, Kto) {
  // Two desirable answers, then two undesirable ones, with z = 0.3125.
  const Numbers sums = {-1.75, 3, 0, 0, -3.5, 2, 0, 0, -3, 2, 0, 0, -3.5, 4, 0, 0};
  const Numbers references = {-2.5, 0.3125, 1, -3, 0.3125, 1, -2, 0.3125, 0, -4, 0.3125, 0};
  PreferenceForm form = {.kind = Kind::kKto, .beta = 0.1};
  const double expected[] = {0.489064244254, 0.520301332852, 0.467234522879, 0.504687362676};
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(pair_loss(form, sums.data() + 4 * i, references.data() + 3 * i).loss, expected[i],
                1e-11);
  Result r = run(form, sums, references);
  EXPECT_NEAR(r.report[0] / 4, 0.495321865665, 1e-11);
  EXPECT_EQ(r.figures[2], 2);                    // desirable
  EXPECT_NEAR(r.figures[5] / 4, 0.3125, 1e-12);  // z
  EXPECT_EQ(r.d_sums[2], 0);                     // the second text has no gradient
  form.undesirable_weight = 1.5;
  r = run(form, sums, references);
  EXPECT_NEAR(r.report[0] / 4, 0.616812101360, 1e-11);
}

TEST(Preference, RewardModel) {
  const Numbers sums = {1.2, 1, 0.4, 1};
  const PreferenceForm form = {.kind = Kind::kReward};
  EXPECT_NEAR(run(form, sums, {0, 0, 0}).report[0], 0.371100665948, 1e-11);
  EXPECT_NEAR(run(form, sums, {0, 0, 0.5}).report[0], 0.554355244469, 1e-11);
}

// Every gradient is the slope of its loss.
TEST(Preference, GradientsAreSlopesOfTheLosses) {
  const PreferenceForm forms[] = {
      {.kind = Kind::kDpo, .beta = 0.3, .label_smoothing = 0.2},
      {.kind = Kind::kDpo, .mean = true, .beta = 0.3},
      {.kind = Kind::kIpo, .mean = true, .beta = 0.7},
      {.kind = Kind::kOrpo, .mean = true, .beta = 0.4},
      {.kind = Kind::kKto, .beta = 0.3, .desirable_weight = 1.3, .undesirable_weight = 0.6},
      {.kind = Kind::kSimpo, .mean = true, .beta = 2, .gamma = 0.5},
      {.kind = Kind::kReward}};
  constexpr double kStep = 1e-6;
  for (const PreferenceForm& form : forms)
    for (size_t pair = 0; pair < 2; ++pair) {
      Numbers references(kReferences.begin() + static_cast<std::ptrdiff_t>(3 * pair),
                         kReferences.begin() + static_cast<std::ptrdiff_t>(3 * pair + 3));
      references[2] = 0.25 * static_cast<double>(pair);
      const auto loss = [&](size_t answer, double by) {
        Numbers s(kSums.begin() + static_cast<std::ptrdiff_t>(4 * pair),
                  kSums.begin() + static_cast<std::ptrdiff_t>(4 * pair + 4));
        s[2 * answer] += by;
        return pair_loss(form, s.data(), references.data()).loss;
      };
      const PairLoss p = pair_loss(form, kSums.data() + 4 * pair, references.data());
      EXPECT_NEAR(p.d_chosen, (loss(0, kStep) - loss(0, -kStep)) / (2 * kStep), 1e-8)
          << static_cast<int>(form.kind);
      EXPECT_NEAR(p.d_rejected, (loss(1, kStep) - loss(1, -kStep)) / (2 * kStep), 1e-8)
          << static_cast<int>(form.kind);
    }
}

// A row without an answer, as at the end of a pass over the data.
TEST(Preference, RowsWithoutAnswersHaveNoLoss) {
  const Result r = run({.kind = Kind::kDpo, .beta = 0.1}, {0, 0, 0, 0}, {0, 0, 0});
  EXPECT_EQ(r.report[0], 0);
  EXPECT_EQ(r.report[1], 0);
  EXPECT_EQ(r.d_sums, (Numbers{0, 0, 0, 0}));
}

TEST(Preference, ExtremeDifferencesStayFinite) {
  for (const double far : {-1e5, 1e5}) {
    const Result r = run({.kind = Kind::kDpo, .beta = 1}, {far, 3, 0, 3}, {0, 0, 0});
    EXPECT_TRUE(std::isfinite(r.report[0]));
    EXPECT_TRUE(std::isfinite(r.d_sums[0]));
  }
  // A certain answer: its log-probability is 0.
  const Result r =
      run({.kind = Kind::kOrpo, .mean = true, .beta = 0.1}, {0, 3, -900, 3}, {0, 0, 0.5});
  EXPECT_TRUE(std::isfinite(r.report[0]));
  EXPECT_TRUE(std::isfinite(r.d_sums[0]) && std::isfinite(r.d_sums[2]));
}

TEST(Preference, SumsBelongToTheirAnswers) {
  Array x(Shape{2, 4, 2}), answers(Shape{2, 4}, DType::kI32);
  const int32_t of[] = {-1, 0, 0, 1, 1, 1, -1, 0};
  for (int64_t i = 0; i < 8; ++i) {
    x.set(2 * i, std::exp(0.1 * static_cast<double>(i)));  // s_0
    x.set(2 * i + 1, -static_cast<double>(i));             // s_1
    answers.as<int32_t>()[i] = of[i];
  }
  Numbers sums(8), d_sums(8);
  const TensorView view{sums.data(), DType::kF64, {2, 2, 2}};
  launch(Cpu(), {.threads = 2}, AnswerSumsArgs{true, x, answers, view});
  const Numbers expected = {-1.1 - 2.2, 2, -3.3, 1, -7.7, 1, -4.4 - 5.5, 2};
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(sums[i], expected[i], 1e-6) << i;
  d_sums = {2, 0, 3, 0, 4, 0, 5, 0};
  Array dx(Shape{2, 4, 2});
  launch(Cpu(), {},
         AnswerSumsGradArgs{true, x, answers, {d_sums.data(), DType::kF64, {2, 2, 2}}, dx});
  const double gradient[] = {0, 2, 2, 3, 5, 5, 0, 4};
  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(dx.at(2 * i + 1), gradient[i], 1e-6);
    EXPECT_NEAR(dx.at(2 * i), -gradient[i] / x.at(2 * i), 1e-6);
  }
}

TEST(Preference, ScoresAreThoseOfMarkedPositions) {
  Array x = Array::random({1, 5, 1}, 3), answers(Shape{1, 5}, DType::kI32);
  const int32_t of[] = {-1, 0, -1, -1, 1};
  for (int64_t i = 0; i < 5; ++i) answers.as<int32_t>()[i] = of[i];
  Numbers sums(4);
  launch(Cpu(), {}, AnswerSumsArgs{false, x, answers, {sums.data(), DType::kF64, {1, 2, 2}}});
  EXPECT_EQ(sums, (Numbers{x.at(1), 1, x.at(4), 1}));
}

}  // namespace
}  // namespace tessera::kernels
