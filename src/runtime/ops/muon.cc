// Bindings of Muon's three ops. The ranks that divide the matrices add their directions between the
// first two:
//
//   muon_direction   u of this rank's elements, zero elsewhere    → all-reduce
//   newton_schulz    X from u, matrix by matrix
//   muon             the update of this rank's elements
#include <algorithm>

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
  for (const auto& [place, part] : part_ranges(b, {}, 0)) {
    args.ranges = part.ranges;
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

// Returns the limit of the rows of a part. A weight with limits begins with the key/value heads;
// its parts divide the dimension after them, so a head has contiguous rows of a part.
kernels::RowClip clip_of(const BoundOp& b, const PartRanges& part) {
  const Value& w = b.values[part.weight];
  kernels::RowClip clip;
  if (w.clips.empty()) return clip;
  const auto& inputs = b.op->inputs;
  const auto scores = std::find(inputs.begin() + Muon::kScores, inputs.end(), w.clips[0].scores);
  clip.scores = b.inputs[scores - inputs.begin()].f32();
  clip.limit = b.op->as<Muon>().score_limit;
  clip.columns = w.shape[-1];
  const int64_t unit = w.shape.product(2, w.shape.rank() - 1);
  const int64_t first = part.part ? part.part->first * unit : 0;
  clip.rows = (part.part ? part.part->count : w.shape[1]) * unit;
  for (const ClippedRows& c : w.clips) {
    const int64_t from = std::max(c.first - first, int64_t{0});
    const int64_t to = std::min(c.last - first, clip.rows);
    if (from < to) clip.ranges[clip.count++] = {from, to, c.share};
  }
  return clip;
}

void run_update(const BoundOp& b) {
  const Muon& a = b.op->as<Muon>();
  const TensorView step = b.in(Muon::kStep), all = b.in(Muon::kDirections);
  kernels::MuonArgs args;
  args.update = update_operands(b, a.update);
  args.constants = update_constants(a.update);
  args.numbers = update_numbers(step, b.in(Muon::kReport));
  for (const auto& [place, part] : part_ranges(b, a.update, update_seed(b, step))) {
    const MatrixRange& m = b.members->matrices[place];
    args.update.ranges = part.ranges;
    args.clip = clip_of(b, part);
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
