#include "data/samples.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tessera::data {
namespace {

TEST(PermutationTest, HitsEachPlaceOnce) {
  for (int64_t n = 1; n < 300; ++n) {
    const Permutation p(static_cast<uint64_t>(n) * 77, n);
    std::vector<bool> seen(static_cast<size_t>(n), false);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t to = p(i);
      ASSERT_TRUE(to >= 0 && to < n);
      ASSERT_FALSE(seen[static_cast<size_t>(to)]) << "n " << n;
      seen[static_cast<size_t>(to)] = true;
      ASSERT_EQ(p.place_of(to), i);
    }
  }
}

TEST(PermutationTest, LargeSizesStayInside) {
  for (const int64_t n : {int64_t{1} << 40, (int64_t{1} << 52) + 12345, int64_t{999'999'937}}) {
    const Permutation p(5, n);
    for (int64_t i = 0; i < 1000; ++i) {
      const int64_t to = p(i);
      EXPECT_TRUE(to >= 0 && to < n);
      EXPECT_NE(to, p(n - 1 - i));
      EXPECT_EQ(p.place_of(to), i);
    }
  }
}

// Where element 0…n−1 lands over many keys: each cell of the n × n table is equally likely.
TEST(PermutationTest, PlacesAreEquallyLikely) {
  for (const int64_t n : {2, 3, 7, 10}) {
    constexpr int kKeys = 20000;
    std::vector<int> count(static_cast<size_t>(n * n), 0);
    for (uint64_t key = 0; key < kKeys; ++key) {
      const Permutation p(key, n);
      for (int64_t i = 0; i < n; ++i) ++count[static_cast<size_t>(i * n + p(i))];
    }
    const double expected = static_cast<double>(kKeys) / static_cast<double>(n);
    for (const int c : count) EXPECT_NEAR(c, expected, 6 * std::sqrt(expected)) << "n " << n;
  }
}

// Neighbors do not stay neighbors: the mean distance of images is near n / 3.
TEST(PermutationTest, NeighborsPart) {
  constexpr int64_t kN = 100'000;
  const Permutation p(1, kN);
  double sum = 0;
  for (int64_t i = 0; i + 1 < kN; ++i) sum += std::abs(static_cast<double>(p(i) - p(i + 1)));
  EXPECT_NEAR(sum / kN / kN, 1.0 / 3, 0.005);
}

}  // namespace
}  // namespace tessera::data
