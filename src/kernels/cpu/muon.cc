// Muon on the CPU: two passes over the flat ranges of a weight, before and after the iterations,
// and the division of a matrix by its norm (formulas in the header). The passes are memory-bound.
#include "kernels/muon.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#define HWY_TARGET_INCLUDE "kernels/cpu/muon_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/muon_simd.h"
#include "kernels/elementwise.h"

namespace tessera::kernels {

HWY_EXPORT(SweepDirection);
HWY_EXPORT(SweepMuon);

void launch(Cpu, const Launch& l, const DirectionArgs& a) {
  UpdateOperands operands;
  operands.gradient = a.gradient;
  operands.m = Sink(a.moment);
  operands.scale = rounded(*a.scale);
  operands.beta1 = rounded(a.momentum);
  operands.one_minus_beta1 = rounded(1 - a.momentum);
  operands.nesterov = a.nesterov;
  operands.directions = Sink(a.directions);
  operands.directions_from = a.first;
  sweep_runs(a.ranges, HWY_DYNAMIC_DISPATCH(SweepDirection), operands, l.threads);
}

void launch(Cpu, const Launch& l, const UnitNormArgs& a) {
  const float factor = rounded(1 / std::max(std::sqrt(*a.squares), a.epsilon));
  launch(Cpu(), l, ScaleArgs{a.x, factor, a.y});
}

namespace {

// Returns min(1, limit / score)^share.
float row_factor(double limit, float score, double share) {
  return score > limit ? rounded(std::pow(limit / score, share)) : 1.0f;
}

// Divides ranges of a part by the factor of their rows.
class RangesByFactor {
 public:
  explicit RangesByFactor(const RowClip& clip) : clip_(clip) {}

  void add(UpdateRange r) {
    while (r.begin < r.end) {
      const auto [factor, end] = factor_at(r.element);
      UpdateRange same = r;
      same.end = std::min(r.end, r.begin + (end - r.element));
      by_factor_[factor].push_back(same);
      r.element += same.end - r.begin;
      r.begin = same.end;
    }
  }
  const std::map<float, std::vector<UpdateRange>>& all() const { return by_factor_; }

 private:
  // Returns the factor of an element and the first element after it that may have another one.
  std::pair<float, int64_t> factor_at(int64_t element) const {
    const int64_t head = element / (clip_.rows * clip_.columns), start = head * clip_.rows;
    const int64_t row = element / clip_.columns - start;
    const auto end_of = [&](int64_t last) { return (start + last) * clip_.columns; };
    for (int k = 0; k < clip_.count; ++k) {
      const RowClip::Range& r = clip_.ranges[k];
      if (row < r.first) return {1.0f, end_of(r.first)};
      if (row < r.last)
        return {row_factor(clip_.limit, clip_.scores[head], r.share), end_of(r.last)};
    }
    return {1.0f, end_of(clip_.rows)};
  }

  const RowClip& clip_;
  std::map<float, std::vector<UpdateRange>> by_factor_;
};

}  // namespace

void launch(Cpu, const Launch& l, const MuonArgs& a) {
  if (*a.numbers.skip != 0) return;
  const Update& u = a.update;
  CHECK(u.m && !u.v, "muon has one moment");
  const UpdateStep step = step_of(a.constants, a.numbers);
  UpdateOperands operands = operands_of(u, step, "muon");
  operands.directions = Sink(a.directions);
  operands.directions_from = a.first;
  operands.direction_rate = rounded(step.learning_rate * a.direction_scale);
  const auto sweep = HWY_DYNAMIC_DISPATCH(SweepMuon);
  if (a.clip.scores == nullptr) return sweep_runs(u.ranges, sweep, operands, l.threads);
  RangesByFactor ranges(a.clip);
  for (const UpdateRange& r : u.ranges) ranges.add(r);
  for (const auto& [factor, same] : ranges.all()) {
    operands.row_factor = factor;
    sweep_runs(same, sweep, operands, l.threads);
  }
}

}  // namespace tessera::kernels
