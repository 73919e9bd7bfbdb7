// The choice of one token's experts, for kernels of every device.
#pragma once

#include <cstdint>
#include <limits>

namespace tessera::kernels {

struct RouteRow {
  const float* scores = nullptr;  // [experts]
  const float* bias = nullptr;    // [experts], or none
  int64_t experts = 0, groups = 1, groups_chosen = 1;

  // What experts are ordered by. NaN is last, so that any row has a valid choice.
  constexpr float value(int64_t e) const {
    const float v = scores[e] + (bias != nullptr ? bias[e] : 0.0f);
    return v == v ? v : -std::numeric_limits<float>::infinity();
  }
  constexpr int64_t group_size() const { return experts / groups; }

  // The sum of the two largest values of a group.
  constexpr float group_value(int64_t g) const {
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    float first = kNone, second = kNone;
    for (int64_t e = g * group_size(); e < (g + 1) * group_size(); ++e) {
      const float v = value(e);
      second = v > first ? first : (v > second ? v : second);
      first = v > first ? v : first;
    }
    return group_size() > 1 ? first + second : first;
  }
  // Whether a group is among the best. Of equal ones the first is better.
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
  // The best expert that comes after `last`, by falling value and rising number; -1: the first.
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

// Writes the numbers of the k best experts in rising order.
constexpr void choose_experts(const RouteRow& row, int64_t k, int32_t* choice) {
  int64_t last = -1;
  for (int64_t n = 0; n < k; ++n) {
    last = row.after(last);
    int64_t at = n;
    for (; at > 0 && choice[at - 1] > last; --at) choice[at] = choice[at - 1];
    choice[at] = static_cast<int32_t>(last);
  }
}

}  // namespace tessera::kernels
