// Which weights live and are reduced together: groups, by who uses a weight, whether its layers
// have one each, and the axes over which its gradient is partial.
#include <algorithm>

#include "base/error.h"
#include "compile/expander.h"
#include "compile/rewrite.h"
#include "ir/names.h"

namespace tessera {
namespace {

// Axes, but those of data, over which what is computed with a shared weight differs.
GroupRef partial_axes(const Value& weight, const Mesh& mesh) {
  GroupRef axes;
  for (const AxisKind a : {AxisKind::kContext, AxisKind::kTensorKv, AxisKind::kTensor})
    if (weight.sharding.place[static_cast<size_t>(a)] == kShared && mesh[a] > 1) axes.add(a);
  return axes;
}

// Weights that several blocks use are one group, whichever blocks these are.
bool live_together(const WeightGroup& a, const WeightGroup& b) {
  const bool shared = a.blocks.size() > 1 && b.blocks.size() > 1;
  return (shared || a.blocks == b.blocks) && a.frozen == b.frozen && a.common == b.common &&
         a.partial == b.partial;
}

}  // namespace

// A weight that several blocks use is in a group of its own: its gradient is complete only when
// all of them have added to it. After an encoder (CompileRequest::encoded) some are not read at
// all, but are at the offsets that the program of the encoder gives them (Block::held).
GroupId Expander::group_for(ValueId weight) {
  WeightGroup g;
  for (const BlockId b : g_.blocks.ids()) {
    const Block& block = g_.blocks[b];
    const bool held = std::count(block.held.begin(), block.held.end(), weight) > 0;
    if (held || readers(block.forward, weight) + readers(block.backward, weight) > 0)
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
  if (!g.partial.empty()) g.name += fmt::format(".{}", to_string(g.partial));
  for (const GroupId known : out_.groups.ids())
    if (live_together(out_.groups[known], g)) return known;
  return out_.groups.push_back(std::move(g));
}

void Expander::group_weights() {
  std::map<GroupId, std::vector<ValueId>> members;
  for (const ValueId v : g_.values.ids())
    if (g_[v].role == Role::kWeight) members[group_for(v)].push_back(v);
  for (const GroupId id : out_.groups.ids()) {
    WeightGroup& g = out_.groups[id];
    const std::vector<ValueId>& weights = members.at(id);
    g.weights = frame(g.name + kWeightsSuffix, weights, g_[weights[0]].per, !divides(3));
    FrameKind& kind = out_.program.kinds.back();
    const int64_t unit = shards() * kUnitElements * size_of(g_[weights[0]].dtype);
    kind.bytes = (kind.bytes + unit - 1) / unit * unit;
    for (const BlockId b : g.blocks)
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

}  // namespace tessera
