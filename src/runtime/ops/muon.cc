// Bindings of Muon's three ops. The ranks that divide the matrices add their directions between the
// first two:
//
//   muon_direction   u of this rank's elements, zero elsewhere    → all-reduce
//   newton_schulz    X from u, matrix by matrix
//   muon             the update of this rank's elements
#include "base/newton_schulz.h"
#include "ir/ops.h"
#include "ir/state.h"
#include "kernels/newton_schulz.h"
#include "runtime/binding.h"
#include "runtime/ops/update.h"

namespace tessera::runtime {
namespace {

// Returns the directions of a part's matrices on this rank.
TensorView directions_of(const BoundOp& b, const TensorView& all, size_t place) {
  const MatrixRange& m = b.members->matrices[place];
  return part(all, m.at, m.at + m.elements());
}

void run_direction(const BoundOp& b) {
  using A = MuonDirection;
  const A& a = b.op->as<A>();
  const TensorView all = b.out(A::kDirections);
  b.run(kernels::ClearArgs{all});
  kernels::DirectionArgs args;
  args.gradient = flat(b.in(A::kGradient));
  args.moment = flat(b.in(A::kMoment));
  args.scale = number_at(b.in(A::kReport), kScale);
  args.momentum = a.momentum;
  args.nesterov = a.nesterov;
  for (const auto& [place, ranges] : part_ranges(b, {}, 0)) {
    args.ranges = ranges;
    args.directions = directions_of(b, all, place);
    args.first = b.members->matrices[place].first;
    b.run(args);
  }
}

const kernels::OrthogonalMatrices& prepared_of(const BoundOp& b) {
  return static_cast<const kernels::OrthogonalMatrices&>(*b.prepared);
}

void run_orthogonal(const BoundOp& b) {
  prepared_of(b).run(b.launch, b.out(NewtonSchulz::kY).data);
}

int64_t orthogonal_workspace(const BoundOp& b) { return prepared_of(b).workspace_bytes(); }

void run_update(const BoundOp& b) {
  const Muon& a = b.op->as<Muon>();
  const TensorView step = b.in(Muon::kStep), all = b.in(Muon::kDirections);
  kernels::MuonArgs args;
  args.update = update_operands(b, a.update);
  args.constants = update_constants(a.update);
  args.numbers = update_numbers(step, b.in(Muon::kReport));
  for (const auto& [place, ranges] : part_ranges(b, a.update, update_seed(b, step))) {
    const MatrixRange& m = b.members->matrices[place];
    args.update.ranges = ranges;
    args.directions = directions_of(b, all, place);
    args.first = m.first;
    args.direction_scale = update_scale(a.scale, m.rows, m.columns);
    b.run(args);
  }
}

}  // namespace

template <>
const Binding& binding_for<MuonDirection>() {
  static constexpr Binding kBinding = {run_direction};
  return kBinding;
}
template <>
const Binding& binding_for<NewtonSchulz>() {
  static constexpr Binding kBinding = {run_orthogonal, orthogonal_workspace};
  return kBinding;
}
template <>
const Binding& binding_for<Muon>() {
  static constexpr Binding kBinding = {run_update};
  return kBinding;
}

}  // namespace tessera::runtime
