#include "plan/shapley.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/philox.h"

namespace tessera::plan {
namespace {

Space three_knobs() {
  return product(
      {{"a", {"1", "2", "4", "8"}, true}, {"b", {"x", "y", "z"}, false}, {"c", {"0", "1"}, true}});
}

double mean_of(const std::vector<double>& v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
}

TEST(Shapley, SharesSumToTheValueLessTheMean) {
  Space space = three_knobs();
  std::erase_if(space.points, [](const Point& p) { return p[0] == 3 && p[1] == 0; });
  std::vector<double> values;
  for (size_t i = 0; i < space.points.size(); ++i)
    values.push_back(Philox::uniform(Philox{3}.block(i)[0]));
  const double mean = mean_of(values);
  const auto shares = shapley(space, values);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(std::accumulate(shares[i].begin(), shares[i].end(), 0.0), values[i] - mean, 1e-12);
}

TEST(Shapley, WhereKnobsAddUpTheShareIsThePartLessItsMean) {
  const Space space = three_knobs();
  const std::vector<std::vector<double>> parts = {{1, 5, 2, -3}, {0.5, 0, 7}, {2, 2}};
  std::vector<double> values;
  for (const Point& p : space.points) {
    double sum = 0;
    for (size_t k = 0; k < parts.size(); ++k) sum += parts[k][static_cast<size_t>(p[k])];
    values.push_back(sum);
  }
  const auto shares = shapley(space, values);
  for (size_t i = 0; i < values.size(); ++i)
    for (size_t k = 0; k < parts.size(); ++k)
      EXPECT_NEAR(shares[i][k],
                  parts[k][static_cast<size_t>(space.points[i][k])] - mean_of(parts[k]), 1e-12);
  const std::vector<double> worth = importance(shares);
  EXPECT_NEAR(worth[2], 0, 1e-12);  // it changes nothing
  EXPECT_NEAR(worth[0], (0.25 + 3.75 + 0.75 + 4.25) / 4, 1e-12);
}

// f = a·b with a, b of ±1: alone a knob says nothing, so the two share it in halves.
TEST(Shapley, WhatOnlyTwoKnobsDoTogetherIsShared) {
  const Space space = product({{"a", {"m", "p"}, false}, {"b", {"m", "p"}, false}});
  std::vector<double> values;
  for (const Point& p : space.points) values.push_back((2 * p[0] - 1) * (2 * p[1] - 1));
  const auto shares = shapley(space, values);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(shares[i][0], values[i] / 2, 1e-12);
    EXPECT_NEAR(shares[i][1], values[i] / 2, 1e-12);
  }
}

}  // namespace
}  // namespace tessera::plan
