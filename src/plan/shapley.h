// What each knob is worth: Shapley's division (1953) of f(p) − mean over the knobs, exactly.
#pragma once

#include <vector>

#include "plan/tune_space.h"

namespace tessera::plan {

constexpr size_t kMostShapleyKnobs = 8;  // all 2^k coalitions of them are looked at

// shares[i][k]: what choosing knob k as point i does adds to the mean of `values` (one for each
// point), in their unit:
//   Σ over coalitions S without k of |S|! (K − |S| − 1)! / K! · (v(S + k) − v(S)),
//   v(S) = the mean of the values of all points that agree with point i on S.
// They sum to values[i] − mean. Where the points are a whole product and values add up knob by
// knob, they are that knob's part less its mean. CHECKs that the knobs are at most
// kMostShapleyKnobs.
std::vector<std::vector<double>> shapley(const Space& space, const std::vector<double>& values);

// Of each knob, the mean over all points of the size of its share.
std::vector<double> importance(const std::vector<std::vector<double>>& shares);

}  // namespace tessera::plan
