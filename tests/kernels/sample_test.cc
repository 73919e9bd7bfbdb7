#include "kernels/sample.h"

#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kV = 300;

int32_t draw(const Array& logits, const Sampling& s, double u) {
  Workspace workspace(sample_workspace_bytes(logits.size()));
  return sample(logits, s, u, workspace);
}

TEST(Sample, TemperatureZeroTakesTheFirstOfTheLargest) {
  Array logits = Array::random({kV}, 1);
  logits.set(200, 5);
  logits.set(17, 5);
  EXPECT_EQ(draw(logits, {.temperature = 0}, 0.9), 17);
  EXPECT_EQ(draw(logits, {.temperature = 1, .top_k = 1}, 0.9), 17);
  EXPECT_EQ(draw(logits, {.temperature = 1, .top_p = 1e-9}, 0.9), 17);
}

// The share of u in [0, 1) that gives each token, on a grid.
std::vector<double> shares(const Array& logits, const Sampling& s) {
  std::vector<double> share(static_cast<size_t>(logits.size()));
  const int n = 4000;
  for (int i = 0; i < n; ++i) {
    share[static_cast<size_t>(draw(logits, s, (i + 0.5) / n))] += 1.0 / n;
  }
  return share;
}

TEST(Sample, DrawsFromTheRestrictedSoftmax) {
  const Array logits = Array::random({kV}, 3, DType::kF32, 4);
  std::vector<std::pair<double, int64_t>> order;
  for (int64_t i = 0; i < kV; ++i) order.emplace_back(-logits.at(i), i);
  std::sort(order.begin(), order.end());
  for (const Sampling& s : {Sampling{.temperature = 0.7}, Sampling{.temperature = 1, .top_k = 5},
                            Sampling{.temperature = 2, .top_p = 0.6},
                            Sampling{.temperature = 1, .top_k = 100, .top_p = 0.9},
                            Sampling{.temperature = 1.5, .min_p = 0.05},
                            Sampling{.temperature = 1, .top_k = 80, .top_p = 0.97, .min_p = 0.02},
                            Sampling{.temperature = 1, .min_p = 1}}) {
    std::vector<double> p;
    double total = 0, kept = 0, mass = 0;
    const int64_t k = s.top_k > 0 ? s.top_k : kV;
    for (int64_t i = 0; i < k; ++i) {
      p.push_back(std::exp(-order[static_cast<size_t>(i)].first / s.temperature));
      total += p.back();
    }
    size_t count = 0;
    while (count < p.size() && (count == 0 || mass < s.top_p * total) && p[count] >= s.min_p * p[0])
      mass += p[count++];
    for (size_t i = 0; i < count; ++i) kept += p[i];
    const std::vector<double> share = shares(logits, s);
    for (size_t i = 0; i < p.size(); ++i) {
      const double expected = i < count ? p[i] / kept : 0;
      EXPECT_NEAR(share[static_cast<size_t>(order[i].second)], expected, 1e-3) << i;
    }
  }
}

}  // namespace
}  // namespace tessera::kernels
