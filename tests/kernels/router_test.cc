#include "kernels/router.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "kernels/cross_entropy.h"
#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

using Row = std::vector<double>;

Row scores_of(RouterScoreKind kind, const Row& z) {
  Row s(z.size());
  double sum = 0;
  for (size_t e = 0; e < z.size(); ++e) {
    s[e] = kind == RouterScoreKind::kSigmoid ? 1 / (1 + std::exp(-z[e])) : std::exp(z[e]);
    sum += s[e];
  }
  if (kind == RouterScoreKind::kSoftmax)
    for (double& each : s) each /= sum;
  return s;
}

// Sorts the groups by their best expert or the sum of the two best, then the experts of the best
// groups.
std::vector<int64_t> chosen_of(const RouterForm& form, const Row& value, int64_t k) {
  const auto size = value.size() / static_cast<size_t>(form.groups);
  std::vector<std::pair<double, int64_t>> groups;
  for (int64_t g = 0; g < form.groups; ++g) {
    const auto first = value.begin() + static_cast<std::ptrdiff_t>(size) * g;
    Row own(first, first + static_cast<std::ptrdiff_t>(size));
    std::sort(own.rbegin(), own.rend());
    const bool two = size > 1 && !form.group_maximum;
    groups.emplace_back(-(own[0] + (two ? own[1] : 0)), g);
  }
  std::sort(groups.begin(), groups.end());
  std::vector<std::pair<double, int64_t>> experts;
  for (int64_t n = 0; n < form.groups_chosen; ++n)
    for (size_t i = 0; i < size; ++i) {
      const auto e = static_cast<size_t>(groups[static_cast<size_t>(n)].second) * size + i;
      experts.emplace_back(-value[e], e);
    }
  std::sort(experts.begin(), experts.end());
  std::vector<int64_t> chosen;
  for (int64_t j = 0; j < k; ++j) chosen.push_back(experts[static_cast<size_t>(j)].second);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

Row weights_of(const RouterForm& form, const Row& s, const std::vector<int64_t>& chosen) {
  double sum = 1e-20;
  for (const int64_t e : chosen) sum += s[static_cast<size_t>(e)];
  Row w;
  for (const int64_t e : chosen)
    w.push_back(static_cast<double>(form.scale) * s[static_cast<size_t>(e)] /
                (form.renormalize ? sum : 1));
  return w;
}

Row row_of(const Array& a, int64_t n, int64_t columns) {
  Row r;
  for (int64_t e = 0; e < columns; ++e) r.push_back(a.at(n * columns + e));
  return r;
}

std::vector<RouterForm> forms() {
  return {{},
          {.renormalize = false, .scale = 2.5f},
          {.score = RouterScoreKind::kSigmoid, .scale = 2.5f},
          {.score = RouterScoreKind::kSigmoid, .renormalize = false},
          {.score = RouterScoreKind::kSigmoid, .groups = 4, .groups_chosen = 2},
          {.groups = 4, .groups_chosen = 2, .group_maximum = true}};
}

TEST(Router, ChoosesAndWeighs) {
  constexpr int64_t kN = 37, kE = 12, kK = 3;
  for (const RouterForm& form : forms()) {
    const Array z = Array::random({kN, kE}, 1, DType::kF32, 3),
                bias = Array::random({kE}, 2, DType::kF32, 0.3);
    for (const bool biased : {false, true}) {
      Array choice({kN, kK}, DType::kI32), weights({kN, kK}), scores({kN, kE});
      compute(RouteArgs{form, z, biased ? bias.view() : TensorView(), choice, weights, scores}, 2);
      std::vector<double> expected, all;
      for (int64_t n = 0; n < kN; ++n) {
        const Row s = scores_of(form.score, row_of(z, n, kE));
        Row value = s;
        for (size_t e = 0; e < value.size() && biased; ++e)
          value[e] += bias.at(static_cast<int64_t>(e));
        const std::vector<int64_t> chosen = chosen_of(form, value, kK);
        for (int64_t j = 0; j < kK; ++j)
          EXPECT_EQ(choice.at(n * kK + j), chosen[static_cast<size_t>(j)]) << n;
        for (const double w : weights_of(form, s, chosen)) expected.push_back(w);
        all.insert(all.end(), s.begin(), s.end());
      }
      EXPECT_LT(distance(weights, expected), 1e-6);
      EXPECT_LT(distance(scores, all), 1e-6);
    }
  }
}

TEST(Router, OfEqualExpertsTheFirstAreChosen) {
  const Array z = Array::full({2, 64}, 0.5);
  Array choice({2, 4}, DType::kI32), weights({2, 4}), scores({2, 64});
  compute(RouteArgs{{}, z, {}, choice, weights, scores});
  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(choice.at(i), i % 4);
    EXPECT_FLOAT_EQ(static_cast<float>(weights.at(i)), 0.25f);
  }
}

TEST(Router, ARowOfNaNHasAValidChoice) {
  const Array z = Array::full({1, 8}, std::nan(""));
  Array choice({1, 3}, DType::kI32), weights({1, 3}), scores({1, 8});
  compute(RouteArgs{{}, z, {}, choice, weights, scores});
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(choice.at(i), i);
  EXPECT_TRUE(std::isnan(weights.at(0)));
}

// Compares with differences of <dw, weights(z)> for a fixed choice.
TEST(Router, GradientOfTheWeights) {
  constexpr int64_t kN = 5, kE = 6, kK = 2;
  constexpr double kStep = 1e-5;
  for (const RouterForm& form : forms()) {
    if (form.groups > 1) continue;  // the choice has no gradient
    const Array z = Array::random({kN, kE}, 3, DType::kF32, 2), dw = Array::random({kN, kK}, 4);
    Array choice({kN, kK}, DType::kI32), weights({kN, kK}), scores({kN, kE}), dz({kN, kE});
    compute(RouteArgs{form, z, {}, choice, weights, scores});
    compute(RouteGradArgs{form, scores, choice, dw, dz}, 2);
    std::vector<double> expected;
    for (int64_t n = 0; n < kN; ++n) {
      std::vector<int64_t> chosen;
      for (int64_t j = 0; j < kK; ++j)
        chosen.push_back(static_cast<int64_t>(choice.at(n * kK + j)));
      const auto value = [&](int64_t e, double step) {
        Row row = row_of(z, n, kE);
        row[static_cast<size_t>(e)] += step;
        const Row w = weights_of(form, scores_of(form.score, row), chosen);
        double sum = 0;
        for (int64_t j = 0; j < kK; ++j) sum += w[static_cast<size_t>(j)] * dw.at(n * kK + j);
        return sum;
      };
      for (int64_t e = 0; e < kE; ++e)
        expected.push_back((value(e, kStep) - value(e, -kStep)) / (2 * kStep));
    }
    EXPECT_LT(distance(dz, expected), 2e-6);
  }
}

constexpr int64_t kB = 3, kT = 7, kE = 5, kK = 2;

// The renormalized weight of a single expert is 1: its gradient is 0, without noise.
TEST(Router, ASingleRenormalizedExpertHasNoGradient) {
  constexpr int64_t kN = 5;
  for (const RouterForm& form : forms()) {
    if (!form.renormalize || form.groups > 1) continue;
    const Array z = Array::random({kN, kE}, 3, DType::kF32, 2), dw = Array::random({kN, 1}, 4);
    Array choice({kN, 1}, DType::kI32), weights({kN, 1}), scores({kN, kE}), dz({kN, kE});
    compute(RouteArgs{form, z, {}, choice, weights, scores});
    compute(RouteGradArgs{form, scores, choice, dw, dz}, 2);
    for (int64_t i = 0; i < dz.size(); ++i) EXPECT_EQ(dz.at(i), 0) << i;
  }
}

struct Losses {
  RouterLossForm form;
  Array z = Array::random({kB, kT, kE}, 5, DType::kF32, 2);
  Array choice{{kB, kT, kK}, DType::kI32}, labels{{kB, kT}, DType::kI32};
  Array weights{{kB, kT, kK}}, scores{{kB, kT, kE}};

  explicit Losses(const RouterLossForm& f) : form(f) {
    compute(RouteArgs{{.score = f.score}, z, {}, choice, weights, scores});
    for (int64_t i = 0; i < kB * kT; ++i) labels.set(i, i % 4 == 1 ? kIgnoredLabel : 3);
  }
  int64_t labelled(int64_t b) const {
    int64_t n = 0;
    for (int64_t t = 0; t < kT; ++t) n += labels.at(b * kT + t) >= 0 ? 1 : 0;
    return n;
  }
  std::vector<double> loads(int64_t b) const {
    std::vector<double> n(kE);
    for (int64_t i = 0; i < kT * kK; ++i) n[static_cast<size_t>(choice.at(b * kT * kK + i))] += 1;
    return n;
  }
  // Returns the formula of the header with element `moved` of z increased by `step`.
  double loss(int64_t moved, double step) const {
    double all = 0;
    for (int64_t b = 0; b < kB; ++b) {
      const std::vector<double> n = loads(b);
      double balance = 0, squares = 0;
      for (int64_t t = b * kT; t < (b + 1) * kT; ++t) {
        Row row = row_of(z, t, kE);
        if (moved / kE == t) row[static_cast<size_t>(moved % kE)] += step;
        Row s = scores_of(form.score, row);
        const double sum = std::accumulate(s.begin(), s.end(), 0.0);
        double exps = 0;
        for (const double x : row) exps += std::exp(x);
        squares += std::log(exps) * std::log(exps);
        for (size_t e = 0; e < s.size(); ++e) balance += n[e] * s[e] / sum / kT;
      }
      all += static_cast<double>(labelled(b)) *
             (static_cast<double>(form.balance) * kE / (kK * kT) * balance +
              static_cast<double>(form.z) * squares / kT);
    }
    return all;
  }
};

TEST(RouterLoss, IsTheFormula) {
  for (const RouterScoreKind kind : {RouterScoreKind::kSoftmax, RouterScoreKind::kSigmoid}) {
    const Losses l({kind, 0.7f, 0.2f});
    double loss = 1, busiest = 2, entropy = 3;
    compute(RouterLossArgs{l.form, l.z, l.scores, l.choice, l.labels, &loss, &busiest, &entropy},
            2);
    EXPECT_NEAR(loss - 1, l.loss(-1, 0), 1e-5 * loss);
    double expected = 0, expected_entropy = 0;
    for (int64_t b = 0; b < kB; ++b) {
      const std::vector<double> n = l.loads(b);
      for (const double load : n)
        if (load > 0)
          expected_entropy -= static_cast<double>(l.labelled(b)) * load / (kT * kK) *
                              std::log(load / (kT * kK)) / std::log(kE);
      expected += static_cast<double>(l.labelled(b)) * *std::max_element(n.begin(), n.end()) * kE /
                  (kT * kK);
    }
    EXPECT_NEAR(busiest - 2, expected, 1e-12 * expected);
    EXPECT_NEAR(entropy - 3, expected_entropy, 1e-12 * expected_entropy);
  }
}

TEST(RouterLoss, OfEvenLoadsIsTheCoefficient) {
  // All loads and scores are equal, so the loss is minimal.
  const Array z = Array::full({1, 4, 4}, 0), scores = Array::full({1, 4, 4}, 0.25);
  Array choice({1, 4, 1}, DType::kI32), labels = Array::full({1, 4}, 0, DType::kI32);
  for (int64_t t = 0; t < 4; ++t) choice.set(t, static_cast<double>(t));
  double loss = 0, busiest = 0, entropy = 0;
  compute(RouterLossArgs{{.balance = 0.5f}, z, scores, choice, labels, &loss, &busiest, &entropy});
  EXPECT_DOUBLE_EQ(loss, 4 * 0.5);
  EXPECT_DOUBLE_EQ(busiest, 4);
  EXPECT_DOUBLE_EQ(entropy, 4);
}

// Returns the choice with −1 in place of each dropped expert, sequence by sequence: an expert keeps
// its first `capacity` tokens.
std::vector<int64_t> kept_of(const Array& choice, int64_t capacity) {
  const int64_t sequences = choice.shape()[0], pairs = choice.size() / sequences;
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < choice.size(); ++i) {
    int64_t earlier = 0;
    for (int64_t j = i / pairs * pairs; j < i; ++j) earlier += choice.at(j) == choice.at(i) ? 1 : 0;
    kept.push_back(earlier < capacity ? static_cast<int64_t>(choice.at(i)) : -1);
  }
  return kept;
}

Array compute_kept(const Array& choice, int64_t experts, int64_t capacity, int threads) {
  Array kept = Array::full(choice.shape(), 77, DType::kI32);
  compute(ExpertCapacityArgs{experts, capacity, choice, kept}, threads);
  return kept;
}

TEST(ExpertCapacity, KeepsTheFirstTokensOfEachSequence) {
  constexpr int64_t kLong = 40;
  const Array z = Array::random({kB, kLong, kE}, 6, DType::kF32, 2);
  Array choice({kB, kLong, kK}, DType::kI32), weights({kB, kLong, kK}), scores({kB, kLong, kE});
  compute(RouteArgs{{}, z, {}, choice, weights, scores});
  for (const int64_t capacity : {1, 2, 7, 16, 39, 40, 1000})
    for (const int threads : {1, 2}) {
      const Array kept = compute_kept(choice, kE, capacity, threads);
      const std::vector<int64_t> expected = kept_of(choice, capacity);
      int64_t dropped = 0;
      for (int64_t i = 0; i < kept.size(); ++i) {
        ASSERT_EQ(kept.at(i), expected[static_cast<size_t>(i)]) << i << ", capacity " << capacity;
        dropped += kept.at(i) < 0 ? 1 : 0;
      }
      const bool drops = capacity <= 16, fits = capacity >= kLong;
      EXPECT_TRUE(dropped > 0 || !drops) << capacity;
      EXPECT_TRUE(dropped == 0 || !fits) << capacity;
    }
}

TEST(ExpertCapacity, AllTokensToOneExpert) {
  const Array choice = Array::full({2, 9, 1}, 3, DType::kI32);
  for (const int64_t capacity : {1, 4, 9}) {
    const Array kept = compute_kept(choice, 4, capacity, 2);
    for (int64_t i = 0; i < kept.size(); ++i) EXPECT_EQ(kept.at(i), i % 9 < capacity ? 3 : -1) << i;
  }
}

// The report counts the pairs that the op drops.
TEST(RouterLoss, CountsDroppedPairs) {
  const Losses l({RouterScoreKind::kSoftmax, 0, 0});
  for (const int64_t capacity : {1, 2, 3, 7}) {
    const Array kept = compute_kept(l.choice, kE, capacity, 1);
    double expected = 0, dropped = 2;
    for (int64_t b = 0; b < kB; ++b)
      for (int64_t i = 0; i < kT * kK; ++i)
        if (kept.at(b * kT * kK + i) < 0)
          expected += static_cast<double>(l.labelled(b)) / (kT * kK);
    compute(RouterLossArgs{.form = l.form,
                           .logits = l.z,
                           .scores = l.scores,
                           .choice = l.choice,
                           .labels = l.labels,
                           .capacity = capacity,
                           .dropped = &dropped},
            2);
    EXPECT_NEAR(dropped - 2, expected, 1e-12) << capacity;
    EXPECT_EQ(expected == 0, capacity == 7) << capacity;
  }
}

// If every expert has the same load, the balance loss is constant: its gradient is 0, without
// noise.
TEST(RouterLoss, EqualLoadsHaveNoGradient) {
  for (const RouterScoreKind kind : {RouterScoreKind::kSoftmax, RouterScoreKind::kSigmoid}) {
    const Losses l({kind, 0.7f, 0});
    Array all({kB, kT, kE}, DType::kI32), dz({kB, kT, kE});
    for (int64_t i = 0; i < all.size(); ++i) all.set(i, static_cast<double>(i % kE));
    const double scale = 8;
    compute(RouterLossGradArgs{l.form, l.z, l.scores, all, l.labels, &scale, dz}, 2);
    for (int64_t i = 0; i < dz.size(); ++i) EXPECT_EQ(dz.at(i), 0) << i;
  }
}

TEST(RouterLoss, GradientOfTheLogits) {
  constexpr double kStep = 1e-5;
  for (const RouterScoreKind kind : {RouterScoreKind::kSoftmax, RouterScoreKind::kSigmoid}) {
    const Losses l({kind, 0.7f, 0.2f});
    Array dz({kB, kT, kE});
    const double scale = 8;
    compute(RouterLossGradArgs{l.form, l.z, l.scores, l.choice, l.labels, &scale, dz}, 2);
    std::vector<double> expected;
    for (int64_t i = 0; i < dz.size(); ++i)
      expected.push_back(scale * (l.loss(i, kStep) - l.loss(i, -kStep)) / (2 * kStep));
    EXPECT_LT(distance(dz, expected), 2e-6);
  }
}

}  // namespace
}  // namespace tessera::kernels
