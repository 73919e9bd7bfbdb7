#include "plan/surrogate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/philox.h"
#include "plan/acquisition.h"

namespace tessera::plan {
namespace {

Space sizes_and_kinds() {
  return product({{"size", {"1", "2", "4", "8", "16"}, true}, {"kind", {"a", "b", "c"}, false}});
}

TEST(TuneSpace, NumbersAreAsFarApartAsTheirLogarithmsNamesAllAlike) {
  const Space s = sizes_and_kinds();
  EXPECT_EQ(s.points.size(), 15u);
  EXPECT_DOUBLE_EQ(s.distance(0, 0, 4), 1);
  EXPECT_DOUBLE_EQ(s.distance(0, 1, 2), 0.25);
  EXPECT_DOUBLE_EQ(s.distance(1, 0, 2), 1);
  EXPECT_DOUBLE_EQ(s.distance(1, 2, 2), 0);
  EXPECT_EQ(s.text({3, 1}), "size=8 kind=b");
  const Space with_zero = product({{"zero", {"0", "1", "3"}, true}});
  EXPECT_DOUBLE_EQ(with_zero.distance(0, 0, 1), 0.5);  // of 1, 2, 4
}

TEST(TuneSpace, RefusesKnobsWithoutChoicesAndChoicesThatAreNoNumbers) {
  EXPECT_THROW(product({{"a", {}, false}}), Error);
  EXPECT_THROW(product({{"a", {"1", "two"}, true}}), Error);
  EXPECT_THROW(product({{"a", {"-1"}, true}}), Error);
}

// Two observations at r = 0 and 1 apart, by the formulas for a matrix of two rows.
TEST(Surrogate, MeanAndVarianceAreThoseByHand) {
  const Space space = product({{"x", {"1", "2", "4"}, true}});
  const Distances distances(space);
  const Kernel k{.variance = 2, .length = {0.5}, .offset = 0.3, .noise = 0.1};
  const Surrogate s(distances, k, {{0}, {2}}, {1, -2});
  const auto matern_at = [](double r) {
    const double z = std::sqrt(5.0) * r;
    return (1 + z + z * z / 3) * std::exp(-z);
  };
  const double near = 0.3 + 2 * matern_at(1), far = 0.3 + 2 * matern_at(2), own = 2.3 + 0.1;
  // At the middle both observations are one length away.
  const double determinant = own * own - far * far;
  const double w0 = (own * 1 - far * -2) / determinant, w1 = (own * -2 - far * 1) / determinant;
  EXPECT_NEAR(s.at({1}).mean, near * (w0 + w1), 1e-12);
  const double explained = near * near * 2 * (own - far) / determinant;
  EXPECT_NEAR(s.at({1}).variance, 2.3 - explained, 1e-12);
  const double log_likelihood =
      -0.5 * (1 * w0 + -2 * w1) - 0.5 * std::log(determinant) - std::log(2 * std::acos(-1.0));
  EXPECT_NEAR(s.log_likelihood(), log_likelihood, 1e-12);
}

TEST(Surrogate, WithoutNoiseItPassesThroughItsObservations) {
  const Space space = sizes_and_kinds();
  const Distances distances(space);
  const Kernel k{.variance = 1, .length = {0.4, 0.6}, .offset = 1, .noise = 1e-10};
  std::vector<Point> points;
  std::vector<double> values;
  for (size_t i = 0; i < space.points.size(); i += 2) {
    points.push_back(space.points[i]);
    values.push_back(std::sin(static_cast<double>(i)));
  }
  const Surrogate s(distances, k, points, values);
  for (size_t i = 0; i < points.size(); ++i) {
    EXPECT_NEAR(s.at(points[i]).mean, values[i], 1e-6);
    EXPECT_NEAR(s.at(points[i]).variance, 0, 1e-6);
  }
  EXPECT_GT(s.at(space.points[1]).variance, 0.01);
}

TEST(Surrogate, AFittedKernelSeesWhichKnobMatters) {
  const Space space = product({{"steep", {"1", "2", "4", "8", "16", "32"}, true},
                               {"flat", {"1", "2", "4", "8", "16", "32"}, true}});
  const Distances distances(space);
  std::vector<double> values;
  for (const Point& p : space.points) values.push_back(0.3 * std::sin(1.7 * p[0]));
  Kernel start;
  start.length = {0.5, 0.5};
  Kernel fitted = start;
  for (int round = 0; round < 5; ++round)
    fitted = fit_kernel(distances, fitted, space.points, values);
  EXPECT_LT(fitted.length[0], 0.5 * fitted.length[1]);
  EXPECT_GT(Surrogate(distances, fitted, space.points, values).log_likelihood(),
            Surrogate(distances, start, space.points, values).log_likelihood());
}

TEST(Acquire, ExpectedImprovementIsTheMeanOfWhatIsGained) {
  const Estimate y{.mean = 1.2, .variance = 0.25};
  const double best = 1;
  double sum = 0;
  constexpr int kDraws = 400'000;
  for (int i = 0; i < kDraws; ++i) {
    const PhiloxBlock b = Philox{7}.block(static_cast<uint64_t>(i));
    sum += std::max(0.0, best - (y.mean + 0.5 * Philox::normal(b[0], b[1])));
  }
  EXPECT_NEAR(expected_improvement(y, best), sum / kDraws, 2e-3);
  EXPECT_DOUBLE_EQ(expected_improvement({.mean = 0.4, .variance = 0}, 1), 0.6);
  EXPECT_DOUBLE_EQ(expected_improvement({.mean = 1.4, .variance = 0}, 1), 0);
}

TEST(Feasibility, LearnsWhereTrialsFailAndKeepsItsPriorElsewhere) {
  const Space space = product(
      {{"micro", {"1", "2", "4", "8", "16", "32", "64"}, true}, {"kind", {"a", "b"}, false}});
  const Distances distances(space);
  const Feasibility f(distances, 2, {{0, 0}, {1, 0}, {5, 0}, {6, 0}}, {true, true, false, false},
                      {1, 1, 1, 1});
  EXPECT_GT(f.at({0, 0}, 1), 0.75);
  EXPECT_LT(f.at({6, 0}, 1), 0.45);
  EXPECT_GT(f.at({0, 0}, 1), f.at({3, 0}, 1));
  EXPECT_GT(f.at({3, 0}, 1), f.at({6, 0}, 1));
  EXPECT_LT(f.at({3, 0}, -6), 0.05);  // a prior that is sure needs more to be moved
  const Feasibility nothing(distances, 2, {}, {}, {});
  EXPECT_NEAR(nothing.at({2, 1}, 0), 0.5, 1e-12);
}

// One observation: the mode solves f = K (t − logistic(m + f)), which one number can show.
TEST(Feasibility, TheModeIsThatOfLaplacesApproximation) {
  const Space space = product({{"kind", {"a", "b"}, false}});
  const Distances distances(space);
  const Feasibility f(distances, 1, {{0}}, {true}, {0.5});
  double departure = 0;
  for (int i = 0; i < 2000; ++i)  // damped, towards the fixed point
    departure += 0.1 * (4 * (1 - 1 / (1 + std::exp(-0.5 - departure))) - departure);
  const double odds = 1 / (1 + std::exp(-0.5 - departure)), curvature = odds * (1 - odds);
  const double variance = 4 - 16 * curvature / (1 + 4 * curvature);
  const double expected =
      1 / (1 + std::exp(-(0.5 + departure) / std::sqrt(1 + std::acos(-1.0) * variance / 8)));
  EXPECT_NEAR(f.at({0}, 0.5), expected, 1e-9);
}

}  // namespace
}  // namespace tessera::plan
