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
std::string partial_axes(const Value& weight, const Mesh& mesh) {
  std::vector<std::string_view> axes;
  for (const AxisKind a : {AxisKind::kContext, AxisKind::kTensorKv, AxisKind::kTensor})
    if (weight.sharding.place[static_cast<size_t>(a)] == kShared && mesh[a] > 1)
      axes.push_back(name_of(a));
  return fmt::format("{}", fmt::join(axes, "+"));
}

}  // namespace

// A weight that several blocks use is in a group of its own: its gradient is complete only when
// all of them have added to it. Behind an encoder (CompileRequest::encoded) some are not used at
// all, but stand where the program that ran it has them.
WeightGroup& Expander::group_for(ValueId weight) {
  WeightGroup g;
  for (const BlockId b : g_.blocks.ids()) {
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
  return out_.groups[out_.groups.push_back(g)];
}

void Expander::group_weights() {
  std::map<std::string, std::vector<ValueId>> members;
  for (const ValueId i : g_.values.ids())
    if (g_.values[i].role == Role::kWeight) members[group_for(i).name].push_back(i);
  for (WeightGroup& g : out_.groups) {
    const std::vector<ValueId>& weights = members.at(g.name);
    g.weights = frame(g.name + ".weights", weights, g_[weights[0]].per, !divides(3));
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
