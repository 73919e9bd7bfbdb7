// The choice of experts for one token, and sums over its scores, for the kernels of every device.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/router.h"

namespace tessera::kernels {

struct RouteRow {
  const float* scores = nullptr;  // [experts]
  const float* bias = nullptr;    // [experts], or none
  int64_t experts = 0, groups = 1, groups_chosen = 1;
  bool group_maximum = false;

  // Experts are ordered by this value. NaN is last, so that any row has a valid choice.
  constexpr float value(int64_t e) const {
    const float v = scores[e] + (bias != nullptr ? bias[e] : 0.0f);
    return v == v ? v : -std::numeric_limits<float>::infinity();
  }
  constexpr int64_t group_size() const { return experts / groups; }

  // Returns the sum of the two largest values of a group, or the largest.
  constexpr float group_value(int64_t g) const {
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    float first = kNone, second = kNone;
    for (int64_t e = g * group_size(); e < (g + 1) * group_size(); ++e) {
      const float v = value(e);
      second = v > first ? first : (v > second ? v : second);
      first = v > first ? v : first;
    }
    return group_size() > 1 && !group_maximum ? first + second : first;
  }
  // Returns true if a group is among the `groups_chosen` best. Of equal groups the first is better.
  constexpr bool takes_part(int64_t g) const {
    if (groups_chosen == groups) return true;
    const float own = group_value(g);
    int64_t better = 0;
    for (int64_t o = 0; o < groups; ++o) {
      const float other = group_value(o);
      better += other > own || (other == own && o < g) ? 1 : 0;
    }
    return better < groups_chosen;
  }
  // Returns the expert after `last` in the order of descending value, then ascending index; for -1
  // the best one.
  constexpr int64_t after(int64_t last) const {
    int64_t best = -1;
    for (int64_t g = 0; g < groups; ++g) {
      if (!takes_part(g)) continue;
      for (int64_t e = g * group_size(); e < (g + 1) * group_size(); ++e) {
        const bool follows =
            last < 0 || value(e) < value(last) || (value(e) == value(last) && e > last);
        if (follows && (best < 0 || value(e) > value(best))) best = e;
      }
    }
    return best;
  }
};

// Writes the indices of the k best experts in ascending order.
constexpr void choose_experts(const RouteRow& row, int64_t k, int32_t* choice) {
  int64_t last = -1;
  for (int64_t n = 0; n < k; ++n) {
    last = row.after(last);
    int64_t at = n;
    for (; at > 0 && choice[at - 1] > last; --at) choice[at] = choice[at - 1];
    choice[at] = static_cast<int32_t>(last);
  }
}

inline constexpr float kLeastSum = 1e-20f;

// Returns the divisor of the weights of the chosen experts.
constexpr float chosen_sum(const RouterForm& form, const float* s, const int32_t* choice,
                           int64_t chosen) {
  if (!form.renormalize) return 1;
  float sum = kLeastSum;
  for (int64_t j = 0; j < chosen; ++j) sum += s[choice[j]];
  return sum;
}

// Returns the divisor of a token's scores in the balance loss.
constexpr float score_sum(RouterScoreKind kind, const float* s, int64_t n) {
  if (kind == RouterScoreKind::kSoftmax) return 1;
  float sum = kLeastSum;
  for (int64_t e = 0; e < n; ++e) sum += s[e];
  return sum;
}

// Replaces the gradient of the scores in `d` by that of the logits.
constexpr void logits_gradient(RouterScoreKind kind, const float* s, int64_t n, float* d) {
  float mean = 0;
  if (kind == RouterScoreKind::kSoftmax)
    for (int64_t e = 0; e < n; ++e) mean += s[e] * d[e];
  for (int64_t e = 0; e < n; ++e)
    d[e] = kind == RouterScoreKind::kSoftmax ? s[e] * (d[e] - mean) : s[e] * (1 - s[e]) * d[e];
}

}  // namespace tessera::kernels
