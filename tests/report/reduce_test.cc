#include "report/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

namespace tessera::report {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Reduce, KeepsShortSeriesWhole) {
  const std::vector<double> values = {3, 1, 2};
  EXPECT_EQ(reduce(values, 4), (std::vector<size_t>{0, 1, 2}));
  EXPECT_TRUE(reduce({}, 4).empty());
}

TEST(Reduce, LeavesOutWhatIsNotFinite) {
  const std::vector<double> values = {kNan, 1, std::numeric_limits<double>::infinity(), 2};
  EXPECT_EQ(reduce(values, 10), (std::vector<size_t>{1, 3}));
  EXPECT_TRUE(reduce(std::vector<double>(100, kNan), 10).empty());
}

// A single spike of each sign at any position survives, and so do both ends.
TEST(Reduce, KeepsExtremesAndEnds) {
  constexpr size_t kMany = 5000;
  for (size_t at = 1; at + 1 < kMany; at += 37) {
    std::vector<double> values(kMany, 1.0);
    values[at] = 100;
    values[kMany - 1 - at] = -100;
    const std::vector<size_t> kept = reduce(values, 200);
    EXPECT_LE(kept.size(), 200u);
    EXPECT_EQ(kept.front(), 0u);
    EXPECT_EQ(kept.back(), kMany - 1);
    const std::set<size_t> set(kept.begin(), kept.end());
    if (at != kMany - 1 - at) {
      EXPECT_TRUE(set.count(at)) << at;
    }
    EXPECT_TRUE(set.count(kMany - 1 - at)) << at;
  }
}

// The smallest and the largest of each interval is kept, and no index twice.
TEST(Reduce, KeepsTheRangeOfEachInterval) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (const size_t n : {11u, 100u, 1001u, 9999u}) {
    std::vector<double> values(n);
    for (double& x : values) x = normal(random);
    const size_t most = 10;
    const std::vector<size_t> kept = reduce(values, most);
    ASSERT_LE(kept.size(), most);
    EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
    EXPECT_EQ(std::set<size_t>(kept.begin(), kept.end()).size(), kept.size());
    const size_t buckets = (most - 2) / 2;
    for (size_t b = 0; b < buckets; ++b) {
      const auto begin = values.begin() + static_cast<int64_t>(b * n / buckets);
      const auto end = values.begin() + static_cast<int64_t>((b + 1) * n / buckets);
      const auto has = [&](double x) {
        return std::any_of(kept.begin(), kept.end(), [&](size_t i) { return values[i] == x; });
      };
      EXPECT_TRUE(has(*std::min_element(begin, end)));
      EXPECT_TRUE(has(*std::max_element(begin, end)));
    }
  }
}

TEST(Smooth, IsTheTwoSidedAverage) {
  const std::vector<double> values = {4, 2, kNan, 8};
  const double w = std::exp(-1.0 / 5);
  const std::vector<double> s = smooth(values, 5);
  EXPECT_DOUBLE_EQ(s[0], (4 + 2 * w + 8 * w * w * w) / (1 + w + w * w * w));
  EXPECT_DOUBLE_EQ(s[1], (4 * w + 2 + 8 * w * w) / (w + 1 + w * w));
  EXPECT_DOUBLE_EQ(s[2], (4 * w * w + 2 * w + 8 * w) / (w * w + w + w));
  EXPECT_DOUBLE_EQ(s[3], (4 * w * w * w + 2 * w * w + 8) / (w * w * w + w * w + 1));
  EXPECT_TRUE(std::isnan(smooth(std::vector<double>{kNan}, 5)[0]));
}

// A straight line is not delayed, far from its ends.
TEST(Smooth, DoesNotLag) {
  std::vector<double> line(1000);
  for (size_t i = 0; i < line.size(); ++i) line[i] = 3 - 0.5 * static_cast<double>(i);
  EXPECT_NEAR(smooth(line, 10)[500], line[500], 1e-9);
}

TEST(Smooth, KeepsAConstant) {
  for (const double x : smooth(std::vector<double>(1000, 3.25), 10)) EXPECT_NEAR(x, 3.25, 1e-14);
}

}  // namespace
}  // namespace tessera::report
