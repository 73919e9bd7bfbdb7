// Frames and segments of a group of weights: what the optimizer keeps, gradients. A flat value is a
// whole frame as one row of elements, whose members (the weights) stand at the same elements in
// every frame of the group.
#include "base/error.h"
#include "compile/expander.h"

namespace tessera {
bool Expander::reduces_each() const {
  return divides(2) || (divides(1) && request_.layout.zero_reduce == ZeroReduce::kEach);
}

// A frame with one element for each of the group's weights, or with a rank's part of them.
FrameKindId Expander::flat_frame(const WeightGroup& g, const std::string& suffix, Role role,
                                 DType type, bool divided) {
  const FrameKind& like = out_.program.kinds[g.weights];
  Value v;
  v.name = g.name + "." + suffix;
  v.dtype = type;
  v.shape = {like.bytes / size_of(g_[like.values[0]].dtype)};
  v.role = role;
  v.per = like.per;
  if (divided) {
    v.sharding.place[static_cast<size_t>(AxisKind::kShard)] = 0;
    localise(v, g_.mesh);
  }
  const ValueId id = g_.values.push_back(v);
  const FrameKindId kind = frame(v.name, {id}, v.per, role != Role::kGradient);
  out_.program.kinds.back().like = g.weights;
  out_.program.kinds.back().stages = out_.program.kinds[g.weights].stages;
  flats_[{kind, divided}] = id;
  return kind;
}

// The frame as one row; with `own` this rank's part of it.
ValueId Expander::flat(FrameKindId kind, bool own) {
  own = own && shards() > 1;
  if (const auto known = flats_.find({kind, own}); known != flats_.end()) return known->second;
  const FrameKind& k = out_.program.kinds[kind];
  const Value member = g_[k.values[0]];
  Value v;
  v.name = k.name + (own ? ".own" : ".flat");
  v.dtype = member.dtype;
  v.shape = {k.bytes / size_of(v.dtype)};
  v.role = member.role;
  v.per = k.per;
  v.frame = kind;
  v.offset = 0;
  if (own) {
    v.own = true;
    v.sharding.place[static_cast<size_t>(AxisKind::kShard)] = 0;
    localise(v, g_.mesh);
  }
  return flats_[{kind, own}] = g_.values.push_back(std::move(v));
}

// Weights, then what the optimizer keeps of them, group by group: the same offsets in every
// program of a run.
void Expander::weight_frames() {
  group_weights();
  for (WeightGroup& g : out_.groups) {
    g.state = {divides(3) ? g.weights_shard : g.weights};
    if (g.frozen || (!trains() && !request_.optimizer_state)) continue;
    optimizer_frames(g);
  }
}

// The gradients live within a step, member by member where their weights are.
void Expander::gradient_frames() {
  if (!trains()) return;
  std::map<ValueId, ValueId> gradient_of;
  for (const ValueId v : g_.values.ids())
    if (g_[v].role == Role::kGradient && g_[v].of) gradient_of[g_[v].of] = v;
  for (WeightGroup& g : out_.groups) {
    if (g.frozen) continue;
    const FrameKind weights = out_.program.kinds[g.weights];
    std::vector<ValueId> gradients;
    for (const ValueId w : weights.values) {
      CHECK(gradient_of.contains(w), "{} has no gradient", g_[w].name);
      gradients.push_back(gradient_of.at(w));
    }
    g.gradients = frame(g.name + ".gradients", gradients, weights.per, false);
    FrameKind& kind = out_.program.kinds.back();
    const int64_t elements = weights.bytes / size_of(g_[weights.values[0]].dtype);
    const DType type = g_[gradients[0]].dtype;
    kind.bytes = elements * size_of(type);
    kind.like = g.weights;
    for (size_t i = 0; i < gradients.size(); ++i) {
      CHECK(g_[gradients[i]].dtype == type, "{} is of another type", g_[gradients[i]].name);
      g_[gradients[i]].offset =
          g_[weights.values[i]].offset / size_of(g_[weights.values[i]].dtype) * size_of(type);
    }
    if (reduces_each())
      g.gradients_shard = flat_frame(g, "gradients.shard", Role::kGradient, type, true);
  }
}

void Expander::weight_segments(WeightGroup& g) {
  squares_segment(g);
  if (g.factors != kNone) factor_segments(g);
  update_segment(g);
}

}  // namespace tessera
