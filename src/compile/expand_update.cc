// What the optimizer keeps of a group of weights, and the segments that update them.
#include "base/error.h"
#include "compile/expander.h"
#include "ir/builder.h"

namespace tessera {
namespace {

OpAttributes update_of(const OptimizerPolicy& o, const WeightUpdate& update) {
  switch (o.kind) {
    case OptimizerKind::kAdamW:
      return Adamw{update};
    case OptimizerKind::kAdafactor:
      return Adafactor{update, o.update_clip, o.scale_by_weight ? o.least_scale : 0.0};
    case OptimizerKind::kLion:
      return Lion{update};
    case OptimizerKind::kSgd:
      return Sgd{update};
  }
  CHECK(false, "optimizer {}", static_cast<int>(o.kind));
}

bool keeps_moment1(const OptimizerPolicy& o) {
  return o.kind == OptimizerKind::kAdamW || o.kind == OptimizerKind::kLion || o.beta1 > 0;
}

}  // namespace

bool Expander::has_master(const WeightGroup& g) const {
  const FrameKind& weights = out_.program.kinds[g.weights];
  return g_[weights.values[0]].dtype != DType::kF32 && request_.precision != Precision::kBf16Sr;
}

void Expander::optimizer_frames(WeightGroup& g) {
  const OptimizerPolicy& o = request_.optimizer;
  const DType kept = o.bf16_moments ? DType::kBF16 : DType::kF32;
  const auto keep = [&](const char* name, Role role, DType type) {
    g.state.push_back(flat_frame(g, name, role, type, divides(1)));
  };
  if (has_master(g)) keep("master", Role::kMaster, DType::kF32);
  if (keeps_moment1(o)) keep("moment1", Role::kMoment1, kept);
  if (o.kind == OptimizerKind::kAdamW) keep("moment2", Role::kMoment2, kept);
  if (o.kind == OptimizerKind::kAdafactor) factor_frames(g);
}

// The flat value of that role which the optimizer keeps, or kNone.
ValueId Expander::kept(const WeightGroup& g, Role role) const {
  for (const FrameKindId k : g.state) {
    const ValueId v = out_.program.kinds[k].values[0];
    if (g_[v].role == role && k != g.weights) return v;
  }
  return kNone;
}

// The rank's own part of what is updated.
ValueId Expander::owned_weights(const WeightGroup& g) {
  const ValueId master = kept(g, Role::kMaster);
  if (master != kNone) return flat(g_[master].frame, true);
  return flat(divides(3) ? g.weights_shard : g.weights, true);
}

void Expander::squares_segment(WeightGroup& g) {
  const ValueId report = only(Role::kReport);
  const FrameKindId sums = reduces_each() ? g.gradients_shard : g.gradients;
  std::vector<Op> squares;
  Builder(g_, squares, kOne, "")
      .emit(Squares{.members = g.weights}, g.name, {flat(sums, true)}, {report});
  ask_target(squares);
  g.squares = segment(Phase::kSquares, g.name, squares);
}

void Expander::update_segment(WeightGroup& g) {
  const ValueId step = only(Role::kStep), report = only(Role::kReport);
  const OptimizerPolicy& o = request_.optimizer;
  const FrameKindId sums = reduces_each() ? g.gradients_shard : g.gradients;
  std::vector<ValueId> inputs = {flat(sums, divides(1)), step, report};
  WeightUpdate a = {.members = g.weights,
                    .beta1 = o.beta1,
                    .beta2 = o.beta2,
                    .epsilon = o.epsilon,
                    .decay = o.weight_decay,
                    .decay_vectors = o.decays_vectors};
  if (g.factors != kNone)
    inputs.insert(inputs.end(), {flat(g.factor_sums, false), flat(g.factors, false),
                                 out_.program.kinds[g.update_squares].values[0]});
  std::vector<ValueId> outputs = {divides(3) ? flat(g.weights_shard, true)
                                             : flat(g.weights, divides(1))};
  for (const Role role : {Role::kMoment1, Role::kMoment2, Role::kMaster})
    if (const ValueId v = kept(g, role); v != kNone) outputs.push_back(v);
  a.master = has_master(g);
  const DType weights = g_[outputs[0]].dtype;
  if (weights != (a.master ? DType::kBF16 : DType::kF32)) a.weights = weights;
  if (o.bf16_moments) a.moments = DType::kBF16;
  const bool rounds = (weights != DType::kF32 && !a.master) || o.bf16_moments;
  if (rounds && o.stochastic) a.rounding = Rounding::kStochastic;
  std::vector<Op> update;
  Builder(g_, update, kOne, "").emit(update_of(o, a), g.name, inputs, outputs);
  ask_target(update);
  g.update = segment(Phase::kUpdate, g.name, update);
}

}  // namespace tessera
