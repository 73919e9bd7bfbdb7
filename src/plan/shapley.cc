// Exact Shapley values over at most 8 knobs. The mean value of every coalition is computed once for
// all points by grouping (2^K passes over the points); then each knob's marginal contributions are
// added with the weights |S|! (K - |S| - 1)! / K!.
#include "plan/shapley.h"

#include <cmath>
#include <unordered_map>

#include "base/error.h"
#include "base/real.h"

namespace tessera::plan {
namespace {

// Returns a number that is equal for points with equal choices for the knobs of the coalition.
uint64_t group_of(const Space& space, const Point& p, unsigned coalition) {
  uint64_t key = 0;
  for (size_t k = 0; k < p.size(); ++k)
    if (coalition >> k & 1U) key = key * space.knobs[k].choices.size() + p[k];
  return key;
}

// Returns v(S) for every point.
std::vector<double> worth(const Space& space, const std::vector<double>& values,
                          unsigned coalition) {
  struct Sum {
    double total = 0, count = 0;
  };
  std::unordered_map<uint64_t, Sum> sums;
  std::vector<uint64_t> keys;
  for (size_t i = 0; i < values.size(); ++i) {
    keys.push_back(group_of(space, space.points[i], coalition));
    Sum& s = sums[keys.back()];
    s.total += values[i];
    ++s.count;
  }
  std::vector<double> out;
  for (const uint64_t key : keys) out.push_back(sums[key].total / sums[key].count);
  return out;
}

// Returns |S|! (K − |S| − 1)! / K!, as 1 / (K binomial(K - 1, |S|)), which needs no factorials.
double share_of(int size, int knobs) {
  double ways = knobs;
  for (int i = 1; i <= size; ++i) ways = ways * (knobs - i) / i;
  return 1 / ways;
}

}  // namespace

std::vector<std::vector<double>> shapley(const Space& space, const std::vector<double>& values) {
  const size_t knobs = space.knobs.size();
  CHECK(knobs <= kMostShapleyKnobs, "too many knobs: {}", knobs);
  CHECK(values.size() == space.points.size(), "{} values, expected one per point", values.size());
  std::vector<std::vector<double>> shares(values.size(), std::vector<double>(knobs, 0));
  std::vector<std::vector<double>> worths;
  for (unsigned s = 0; s < 1U << knobs; ++s) worths.push_back(worth(space, values, s));
  for (unsigned s = 0; s < 1U << knobs; ++s) {
    for (size_t k = 0; k < knobs; ++k) {
      if (s >> k & 1U) continue;
      const double part = share_of(__builtin_popcount(s), static_cast<int>(knobs));
      const std::vector<double>&with = worths[s | 1U << k], &without = worths[s];
      for (size_t i = 0; i < values.size(); ++i) shares[i][k] += part * (with[i] - without[i]);
    }
  }
  return shares;
}

std::vector<double> importance(const std::vector<std::vector<double>>& shares) {
  if (shares.empty()) return {};
  std::vector<double> mean(shares[0].size(), 0);
  for (const std::vector<double>& point : shares)
    for (size_t k = 0; k < mean.size(); ++k) mean[k] += ratio(std::abs(point[k]), shares.size());
  return mean;
}

}  // namespace tessera::plan
