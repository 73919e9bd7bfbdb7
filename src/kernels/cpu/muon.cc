// Muon on the CPU: two passes over the flat ranges of a weight, before and after the iterations,
// and the division of a matrix by its norm (formulas in the header). The passes are memory-bound.
#include "kernels/muon.h"

#include <algorithm>
#include <cmath>

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

void launch(Cpu, const Launch& l, const MuonArgs& a) {
  if (*a.numbers.skip != 0) return;
  const Update& u = a.update;
  CHECK(u.m && !u.v, "muon has one moment");
  const UpdateStep step = step_of(a.constants, a.numbers);
  UpdateOperands operands = operands_of(u, step, "muon");
  operands.directions = Sink(a.directions);
  operands.directions_from = a.first;
  operands.direction_rate = rounded(step.learning_rate * a.direction_scale);
  sweep_runs(u.ranges, HWY_DYNAMIC_DISPATCH(SweepMuon), operands, l.threads);
}

}  // namespace tessera::kernels
