// Buffers and segments of a group of weights: optimizer state and gradients. A flat value is a
// whole buffer as one row of elements. Its members (the weights) have the same offsets in every
// buffer of the group.
#include "base/error.h"
#include "base/moment_code.h"
#include "compile/lower/lowering.h"

namespace tessera::compile {

// Creates a buffer kind with one element for each element of the group's weights, or for this
// rank's shard of them. Of scales, it has one for each block of elements.
BufferKindId flat_buffer(Lowering& low, const WeightGroup& g, const std::string& suffix, Role role,
                         DType type, bool divided) {
  const BufferKind& like = low.out.program.kinds[g.weights];
  Value v;
  v.name = g.name + "." + suffix;
  v.dtype = type;
  v.shape = {like.bytes / size_of(low.graph[like.values[0]].dtype)};
  if (is_moment_scale(role)) v.shape = {v.shape[0] / kMomentBlock};
  v.role = role;
  v.indexed_by = like.indexed_by;
  if (divided) {
    divide_state(v.sharding, low.graph.mesh);
    localise(v, low.graph.mesh);
  }
  const ValueId id = low.graph.values.push_back(v);
  const BufferKindId kind = buffer(low, v.name, {id}, v.indexed_by, role != Role::kGradient);
  low.out.program.kinds.back().like = g.weights;
  low.out.program.kinds.back().stages = low.out.program.kinds[g.weights].stages;
  low.flats[{kind, divided}] = id;
  return kind;
}

// Returns the buffer as one row, with `own` only this rank's shard of it.
ValueId flat(Lowering& low, BufferKindId kind, bool own) {
  own = own && low.context.zero.shards > 1;
  if (const auto known = low.flats.find({kind, own}); known != low.flats.end())
    return known->second;
  const BufferKind& k = low.out.program.kinds[kind];
  const Value member = low.graph[k.values[0]];
  Value v;
  v.name = k.name + (own ? ".own" : ".flat");
  v.dtype = member.dtype;
  v.shape = {k.bytes / size_of(v.dtype)};
  v.role = member.role;
  v.indexed_by = k.indexed_by;
  v.buffer = kind;
  v.offset = 0;
  if (own) {
    v.is_local_shard = true;
    divide_state(v.sharding, low.graph.mesh);
    localise(v, low.graph.mesh);
  }
  return low.flats[{kind, own}] = low.graph.values.push_back(std::move(v));
}

// Creates the buffers of weights, then of their optimizer state, group by group, so that they have
// the same offsets in every program of a run.
void weight_buffers(Lowering& low) {
  group_weights(low);
  for (WeightGroup& g : low.out.groups) {
    g.state = {low.context.zero.divides_weights() ? g.weights_shard : g.weights};
    if (g.frozen || (!low.trains() && !low.context.request.optimizer_state)) continue;
    optimizer_buffers(low, g);
  }
}

// Creates the gradient buffers. They exist within a step, and each member has the offset, in
// elements, of its weight.
void gradient_buffers(Lowering& low) {
  if (!low.trains()) return;
  std::map<ValueId, ValueId> gradient_of;
  for (const ValueId v : low.graph.values.ids())
    if (low.graph[v].role == Role::kGradient && low.graph[v].of) gradient_of[low.graph[v].of] = v;
  for (WeightGroup& g : low.out.groups) {
    if (g.frozen) continue;
    const BufferKind weights = low.out.program.kinds[g.weights];
    std::vector<ValueId> gradients;
    for (const ValueId w : weights.values) {
      CHECK(gradient_of.contains(w), "{} has no gradient", low.graph[w].name);
      gradients.push_back(gradient_of.at(w));
    }
    g.gradients = buffer(low, g.name + ".gradients", gradients, weights.indexed_by, false);
    BufferKind& kind = low.out.program.kinds.back();
    const int64_t elements = weights.bytes / size_of(low.graph[weights.values[0]].dtype);
    const DType type = low.graph[gradients[0]].dtype;
    kind.bytes = elements * size_of(type);
    kind.like = g.weights;
    for (size_t i = 0; i < gradients.size(); ++i) {
      CHECK(low.graph[gradients[i]].dtype == type,
            "{} has another dtype than the other gradients of its group",
            low.graph[gradients[i]].name);
      low.graph[gradients[i]].offset = low.graph[weights.values[i]].offset /
                                       size_of(low.graph[weights.values[i]].dtype) * size_of(type);
    }
    if (low.context.zero.reduces_each)
      g.gradients_shard = flat_buffer(low, g, "gradients.shard", Role::kGradient, type, true);
  }
}

void weight_segments(Lowering& low, WeightGroup& g) {
  squares_segment(low, g);
  if (g.factors != kNone) factor_segments(low, g);
  if (updates_matrices(low, g)) direction_segments(low, g);
  update_segment(low, g);
}

}  // namespace tessera::compile
