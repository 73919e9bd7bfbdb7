// Reduces long series to what a chart can show, without losing an extreme value.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tessera::report {

// Returns rising indices of at most `most` (>= 4) values: the first and the last finite value, and
// the smallest and the largest of each of equally wide buckets (min/max decimation). Values that
// are not finite are left out. Returns all finite ones if they are few enough.
std::vector<size_t> reduce(std::span<const double> values, size_t most);

// Returns the two-sided exponential average, which has no lag on a falling loss:
// s_i = Σ_j w^|i-j| x_j / Σ_j w^|i-j| with w = exp(-1 / steps), over the finite x_j. NaN where
// there is none.
std::vector<double> smooth(std::span<const double> values, double steps);

}  // namespace tessera::report
