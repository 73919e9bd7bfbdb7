// Optimizer state of a weight group, and the segments that update it.
//
// What a group keeps depends on its optimizer and precision: a master copy in f32 if the weights
// are rounded or averaged, moments as the traits of the optimizer state, the iterate z of
// schedule_free, and the exponential mean of `optimizer.ema`. All are flat buffers; with ZeRO
// a rank has its shard of them. Moments in 8 bits also have a buffer of scales, one per block. The
// mean is an op after the update, which reads the master copy where there is one, so it is the same
// for every optimizer.
#include <algorithm>

#include "compile/lower/lowering.h"
#include "ir/builder.h"
#include "ir/op.h"

namespace tessera::compile {
namespace {

OpAttributes update_of(const OptimizerPolicy& o, const WeightUpdate& update, int64_t scores) {
  if (traits_of(o.kind).factored)
    return Adafactor{update, o.clip_threshold, o.scale_parameter ? o.min_parameter_scale : 0.0};
  if (traits_of(o.kind).matrices)
    return Muon{update, o.update_scale, scores > 0 ? o.qk_clip : 0, scores};
  return one_pass_update(o.kind, update);
}

bool has_master(const Lowering& low, const WeightGroup& g) {
  const BufferKind& weights = low.out.program.kinds[g.weights];
  if (traits_of(low.context.request.policy(g.policy).kind).averages) return true;
  return low.graph[weights.values[0]].dtype != DType::kF32 &&
         low.context.request.precision != Precision::kBf16Sr;
}

// Returns true for biases of routers, which follow the load of the experts. They have no optimizer
// state, and their sums are not gradients, so the gradient norm is without them.
bool is_balance(const WeightGroup& g) { return g.policy == kBalancePolicy; }

// Returns the reduced gradients of a group that this rank updates.
ValueId complete_sums(Lowering& low, const WeightGroup& g) {
  const ZeroPlan& zero = low.context.zero;
  return flat(low, zero.reduces_each ? g.gradients_shard : g.gradients, zero.divides_optimizer());
}

ValueId updated_weights(Lowering& low, const WeightGroup& g) {
  const ZeroPlan& zero = low.context.zero;
  return zero.divides_weights() ? flat(low, g.weights_shard, true)
                                : flat(low, g.weights, zero.divides_optimizer());
}

// Returns the attention scores that limit weights of the group.
std::vector<ValueId> scores_of(const Lowering& low, const WeightGroup& g) {
  std::vector<ValueId> scores;
  for (const ValueId w : low.out.program.kinds[g.weights].values)
    for (const ClippedRows& c : low.graph[w].clips)
      if (std::find(scores.begin(), scores.end(), c.scores) == scores.end())
        scores.push_back(c.scores);
  return scores;
}

void balance_segment(Lowering& low, WeightGroup& g) {
  std::vector<Op> update;
  Builder(low.graph, update, kOne, "")
      .emit(BalanceUpdate{.rate = low.context.request.model.router.bias_rate}, g.name,
            {complete_sums(low, g), only(low, Role::kReport)}, {updated_weights(low, g)});
  g.update = segment(low, Phase::kUpdate, g.name, update);
}

}  // namespace

void optimizer_buffers(Lowering& low, WeightGroup& g) {
  if (is_balance(g)) return;
  const OptimizerPolicy o = low.context.request.policy(g.policy);
  if (o.moments == DType::kU8) require_whole_blocks(low, g);
  const auto keep = [&](const char* name, Role role, DType type) {
    g.state.push_back(flat_buffer(low, g, name, role, type, low.context.zero.divides_optimizer()));
  };
  const auto keep_moment = [&](const char* name, Role role, Role scale) {
    keep(name, role, o.moments);
    if (o.moments == DType::kU8) keep(fmt::format("{}.scales", name).c_str(), scale, DType::kF32);
  };
  if (has_master(low, g)) keep("master", Role::kMaster, DType::kF32);
  const OptimizerTraits& traits = traits_of(o.kind);
  if (traits.averages)
    keep("iterate", Role::kIterate, DType::kF32);
  else if (traits.moment1 || o.beta1 > 0)
    keep_moment("moment1", Role::kMoment1, Role::kMoment1Scale);
  if (traits.moment2) keep_moment("moment2", Role::kMoment2, Role::kMoment2Scale);
  if (low.context.request.average_decay > 0) keep("average", Role::kAverage, DType::kF32);
  if (traits.factored) factor_buffers(low, g);
}

ValueId kept(const Lowering& low, const WeightGroup& g, Role role) {
  for (const BufferKindId k : g.state) {
    const ValueId v = low.out.program.kinds[k].values[0];
    if (low.graph[v].role == role && k != g.weights) return v;
  }
  return kNone;
}

bool updates_matrices(const Lowering& low, const WeightGroup& g) {
  return !is_balance(g) && traits_of(low.context.request.policy(g.policy).kind).matrices;
}

// The rank's own part of what is updated.
ValueId owned_weights(Lowering& low, const WeightGroup& g) {
  const ValueId master = kept(low, g, Role::kMaster);
  if (master != kNone) return flat(low, low.graph[master].buffer, true);
  return flat(low, low.context.zero.divides_weights() ? g.weights_shard : g.weights, true);
}

void squares_segment(Lowering& low, WeightGroup& g) {
  if (is_balance(g)) return;
  const ValueId report = only(low, Role::kReport);
  const BufferKindId sums = low.context.zero.reduces_each ? g.gradients_shard : g.gradients;
  std::vector<Op> squares;
  Builder(low.graph, squares, kOne, "")
      .emit(Squares{.members = g.weights}, g.name, {flat(low, sums, true)}, {report});
  ask_target(low, squares);
  g.squares = segment(low, Phase::kSquares, g.name, squares);
}

void update_segment(Lowering& low, WeightGroup& g) {
  if (is_balance(g)) return balance_segment(low, g);
  const ValueId step = only(low, Role::kStep), report = only(low, Role::kReport);
  const OptimizerPolicy o = low.context.request.policy(g.policy);
  std::vector<ValueId> inputs = {complete_sums(low, g), step, report};
  WeightUpdate a = {.members = g.weights,
                    .beta1 = o.beta1,
                    .beta2 = o.beta2,
                    .epsilon = o.epsilon,
                    .decay = o.weight_decay,
                    .decay_vectors = o.decays_vectors,
                    .rate = o.rate_multiplier};
  if (traits_of(o.kind).matrices) {
    a.beta1 = o.momentum;
    a.beta2 = a.epsilon = 0;
    inputs.push_back(flat(low, g.directions, false));
  }
  const std::vector<ValueId> scores = scores_of(low, g);
  inputs.insert(inputs.end(), scores.begin(), scores.end());
  if (g.factors != kNone)
    inputs.insert(inputs.end(), {flat(low, g.factor_sums, false), flat(low, g.factors, false),
                                 low.out.program.kinds[g.update_squares].values[0]});
  std::vector<ValueId> outputs = {updated_weights(low, g)};
  for (const Role role : {Role::kIterate, Role::kMoment1, Role::kMoment2, Role::kMoment1Scale,
                          Role::kMoment2Scale, Role::kMaster})
    if (const ValueId v = kept(low, g, role); v != kNone) outputs.push_back(v);
  a.master = has_master(low, g);
  const DType weights = low.graph[outputs[0]].dtype;
  if (weights != (a.master ? DType::kBF16 : DType::kF32)) a.weights = weights;
  a.moments = o.moments;
  const bool rounds = (weights != DType::kF32 && !a.master) || o.moments == DType::kBF16;
  if (rounds && o.stochastic) a.rounding = Rounding::kStochastic;
  std::vector<Op> update;
  Builder b(low.graph, update, kOne, "");
  b.emit(update_of(o, a, std::ssize(scores)), g.name, inputs, outputs);
  if (const ValueId average = kept(low, g, Role::kAverage); average != kNone)
    b.emit(WeightAverage{low.context.request.average_decay}, g.name,
           {a.master ? outputs.back() : outputs[0], report}, {average});
  ask_target(low, update);
  g.update = segment(low, Phase::kUpdate, g.name, update);
}

}  // namespace tessera::compile
