// The median of numbers.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

namespace tessera {

// Returns the value in the middle of the sorted values, or the mean of both values in the middle if
// their number is even. Returns NaN if there are no values. No value may be NaN.
inline double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  // All values before the middle are at most as large, so the other one is their maximum.
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

}  // namespace tessera
