// Frames and segments of weights: groups, what the optimizer keeps, gradients. A flat value is a
// whole frame as one row of elements, whose members (the weights) stand at the same elements in
// every frame of the group.
#include <algorithm>

#include "base/error.h"
#include "compile/expander.h"
#include "compile/rewrite.h"
#include "ir/builder.h"
#include "ir/names.h"
#include "ir/rule.h"

namespace tessera {
namespace {

// Axes, but those of data, over which what is computed with a shared weight differs.
std::string partial_axes(const Value& weight, const Mesh& mesh) {
  std::vector<std::string_view> axes;
  for (const AxisKind a : {AxisKind::kContext, AxisKind::kTensorKv, AxisKind::kTensor})
    if (weight.sharding.place[static_cast<size_t>(a)] == kShared && mesh[a] > 1)
      axes.push_back(name_of(a));
  return fmt::format("{}", fmt::join(axes, "+"));
}

}  // namespace

bool Expander::reduces_each() const {
  return divides(2) || (divides(1) && request_.layout.zero_reduce == ZeroReduce::kEach);
}

// A weight that several blocks use is in a group of its own: its gradient is complete only when
// all of them have added to it. Behind an encoder (CompileRequest::encoded) some are not used at
// all, but stand where the program that ran it has them.
WeightGroup& Expander::group_for(ValueId weight) {
  WeightGroup g;
  for (size_t b = 0; b < g_.blocks.size(); ++b) {
    const Block& block = g_.blocks[b];
    const bool past = request_.encoded && g_[weight].name.starts_with(block.name + ".");
    if (past || readers(block.forward, weight) + readers(block.backward, weight) > 0)
      g.blocks.push_back(b);
  }
  CHECK(!g.blocks.empty(), "weight {} is used by no block", g_[weight].name);
  g.frozen = g_[weight].frozen;
  if (!g.frozen) g.partial = partial_axes(g_[weight], g_.mesh);
  g.name = g.blocks.size() > 1 ? "shared" : g_.blocks[g.blocks[0]].name;
  if (g.frozen) g.name += ".frozen";
  g.per_layer = (g_[weight].per & kPerLayer) != 0;
  // What all layers of a stack have in common lives, and is complete, at other times than theirs.
  g.common = !g.per_layer && g_.blocks[g.blocks[0]].is_stack();
  if (g.common) g.name += ".common";
  if (!g.partial.empty()) g.name += "." + g.partial;
  for (WeightGroup& known : out_.groups)
    if (known.name == g.name) return known;
  out_.groups.push_back(g);
  return out_.groups.back();
}

void Expander::group_weights() {
  std::map<std::string, std::vector<ValueId>> members;
  for (size_t i = 0; i < g_.values.size(); ++i)
    if (g_.values[i].role == Role::kWeight)
      members[group_for(static_cast<ValueId>(i)).name].push_back(static_cast<ValueId>(i));
  for (WeightGroup& g : out_.groups) {
    const std::vector<ValueId>& weights = members.at(g.name);
    g.weights = frame(g.name + ".weights", weights, g_[weights[0]].per, !divides(3));
    FrameKind& kind = out_.program.kinds.back();
    const int64_t unit = shards() * kUnitElements * size_of(g_[weights[0]].dtype);
    kind.bytes = (kind.bytes + unit - 1) / unit * unit;
    for (const size_t b : g.blocks)
      for (const int64_t stage : holders_[b])
        if ((g.blocks.size() > 1 || g.common) &&
            !std::count(kind.stages.begin(), kind.stages.end(), stage))
          kind.stages.push_back(stage);
    std::sort(kind.stages.begin(), kind.stages.end());
    if (kind.stages.size() == 1) kind.stages.clear();
    if (divides(3))
      g.weights_shard = flat_frame(g, "weights.shard", Role::kWeight, g_[weights[0]].dtype, true);
  }
}

// A frame with one element for each of the group's weights, or with a rank's part of them.
FrameKindId Expander::flat_frame(const WeightGroup& g, const std::string& suffix, Role role,
                                 DType type, bool divided) {
  const FrameKind& like = out_.program.kinds[static_cast<size_t>(g.weights)];
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
  g_.values.push_back(v);
  const auto id = static_cast<ValueId>(g_.values.size() - 1);
  const FrameKindId kind = frame(v.name, {id}, v.per, role != Role::kGradient);
  out_.program.kinds.back().like = g.weights;
  out_.program.kinds.back().stages = out_.program.kinds[static_cast<size_t>(g.weights)].stages;
  flats_[{kind, divided}] = id;
  return kind;
}

// The frame as one row; with `own` this rank's part of it.
ValueId Expander::flat(FrameKindId kind, bool own) {
  own = own && shards() > 1;
  if (const auto known = flats_.find({kind, own}); known != flats_.end()) return known->second;
  const FrameKind& k = out_.program.kinds[static_cast<size_t>(kind)];
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
  g_.values.push_back(v);
  return flats_[{kind, own}] = static_cast<ValueId>(g_.values.size() - 1);
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
  std::map<std::string, ValueId> named;
  for (size_t i = 0; i < g_.values.size(); ++i)
    if (g_.values[i].role == Role::kGradient) named[g_.values[i].name] = static_cast<ValueId>(i);
  for (WeightGroup& g : out_.groups) {
    if (g.frozen) continue;
    const FrameKind weights = out_.program.kinds[static_cast<size_t>(g.weights)];
    std::vector<ValueId> gradients;
    for (const ValueId w : weights.values) {
      CHECK(named.contains(g_[w].name + ".gradient"), "{} has no gradient", g_[w].name);
      gradients.push_back(named.at(g_[w].name + ".gradient"));
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
