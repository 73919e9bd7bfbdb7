#include "data/blend.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"

namespace tessera::data {
namespace {

std::vector<int> first(const std::vector<double>& weights, int n) {
  Blend blend(weights);
  std::vector<int> out;
  for (int i = 0; i < n; ++i) out.push_back(blend.at(i).source);
  return out;
}

TEST(BlendTest, MegatronsExamples) {
  EXPECT_EQ(first({.5, .25, .25}, 8), (std::vector<int>{0, 1, 2, 0, 0, 1, 2, 0}));
  EXPECT_EQ(first({.7, .3}, 10), (std::vector<int>{0, 1, 0, 0, 1, 0, 0, 1, 0, 0}));
  EXPECT_EQ(first({3}, 3), (std::vector<int>{0, 0, 0}));
}

// Within one sample of the weights after every sample, for weights of all sorts.
TEST(BlendTest, StaysWithinOneSample) {
  const Philox random{7};
  for (uint64_t trial = 0; trial < 300; ++trial) {
    std::vector<double> weights;
    const uint64_t k = 1 + random.word(trial) % (trial % 10 == 0 ? 60 : 9);
    double sum = 0;
    for (uint64_t i = 0; i < k; ++i) {
      const double u = 1e-3 + Philox::uniform(random.block(trial, i + 1)[0]);
      weights.push_back(std::pow(u, 1 + static_cast<double>(trial % 4)));
      sum += weights.back();
    }
    Blend blend(weights);
    std::vector<double> given(k, 0);
    for (int64_t s = 0; s < 2000; ++s) {
      const Blend::Pick pick = blend.at(s);
      ASSERT_EQ(static_cast<double>(pick.index), given[static_cast<size_t>(pick.source)]++);
      for (uint64_t i = 0; i < k; ++i) {
        const double exact = weights[i] / sum * static_cast<double>(s + 1);
        ASSERT_LE(std::abs(given[i] - exact), 1 + 1e-6) << "trial " << trial << " sample " << s;
      }
    }
  }
}

TEST(BlendTest, AnySampleInAnyOrder) {
  const std::vector<double> weights = {5, 2, 1};
  Blend forward(weights);
  std::vector<Blend::Pick> all;
  for (int64_t s = 0; s < 20000; ++s) all.push_back(forward.at(s));
  for (const int64_t s : {19999, 3, 4095, 4096, 4097, 12287, 12288, 0, 8191}) {
    Blend jumping(weights);
    for (const int64_t at : {s, int64_t{17}, s, s + (s < 19999)}) {
      const auto& want = all[static_cast<size_t>(at)];
      const Blend::Pick got = jumping.at(at);
      EXPECT_EQ(got.source, want.source) << at;
      EXPECT_EQ(got.index, want.index) << at;
    }
  }
}

}  // namespace
}  // namespace tessera::data
