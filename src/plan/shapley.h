// Exact Shapley values (1953): the contribution of each knob to f(p) − mean.
#pragma once

#include <vector>

#include "plan/tune_space.h"

namespace tessera::plan {

constexpr size_t kMostShapleyKnobs = 8;  // all 2^k coalitions are evaluated

// Returns shares[i][k]: the contribution of the choice of knob k at point i to values[i], in the
// unit of `values` (one for each point):
//   Σ over coalitions S without k of |S|! (K − |S| − 1)! / K! · (v(S + k) − v(S)),
//   v(S) = the mean of the values of all points that agree with point i on S.
// The shares of a point sum to values[i] − mean. If the points are all combinations of choices and
// f is a sum of one term per knob, a share is that term minus its mean. CHECKs that there are at
// most kMostShapleyKnobs knobs.
std::vector<std::vector<double>> shapley(const Space& space, const std::vector<double>& values);

// Returns the mean absolute share of each knob over all points.
std::vector<double> importance(const std::vector<std::vector<double>>& shares);

}  // namespace tessera::plan
