// Reduces and smooths series for charts. Keeping the extremes of each interval, instead of a mean
// or every n-th value, shows each spike at its true height. The average is a two-sided exponential
// one: it has no delay against the curve, unlike a one-sided one, and needs two passes, O(n).
// Values that are not finite have weight 0.
#include "report/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::report {

std::vector<size_t> reduce(std::span<const double> values, size_t most) {
  std::vector<size_t> finite;
  for (size_t i = 0; i < values.size(); ++i)
    if (std::isfinite(values[i])) finite.push_back(i);
  if (finite.size() <= most) return finite;
  const size_t buckets = (most - 2) / 2;
  std::vector<size_t> kept = {finite.front()};
  const auto keep = [&kept](size_t i) {
    if (i > kept.back()) kept.push_back(i);
  };
  for (size_t b = 0; b < buckets; ++b) {
    const auto begin = finite.begin() + b * finite.size() / buckets;
    const auto end = finite.begin() + (b + 1) * finite.size() / buckets;
    const auto [low, high] =
        std::minmax_element(begin, end, [&](size_t a, size_t c) { return values[a] < values[c]; });
    keep(std::min(*low, *high));
    keep(std::max(*low, *high));
  }
  keep(finite.back());
  return kept;
}

// Two passes: each adds the values before it, in its direction, with their decayed weights.
std::vector<double> smooth(std::span<const double> values, double steps) {
  const double w = std::exp(-1 / steps);
  std::vector<double> sums(values.size()), weights(values.size());
  const auto pass = [&](size_t i, double& sum, double& weight) {
    sums[i] += sum;
    weights[i] += weight;
    if (std::isfinite(values[i])) {
      sum += values[i];
      weight += 1;
    }
    sum *= w;
    weight *= w;
  };
  double sum = 0, weight = 0;
  for (size_t i = 0; i < values.size(); ++i) pass(i, sum, weight);
  sum = weight = 0;
  for (size_t i = values.size(); i-- > 0;) pass(i, sum, weight);
  for (size_t i = 0; i < values.size(); ++i) {
    const bool finite = std::isfinite(values[i]);
    const double all = weights[i] + (finite ? 1 : 0);
    sums[i] = all > 0 ? (sums[i] + (finite ? values[i] : 0)) / all
                      : std::numeric_limits<double>::quiet_NaN();
  }
  return sums;
}

}  // namespace tessera::report
