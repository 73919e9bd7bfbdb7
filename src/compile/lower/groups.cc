// Groups weights that share a lifetime and a reduction: by their dtype, by the blocks that use a
// weight, by whether each layer has its own, by the axes over which its gradient is partial, by the
// optimizer that updates it, and for Muon by the axes that divide its matrices.
#include <algorithm>

#include "base/error.h"
#include "compile/graph/graph_passes.h"
#include "compile/graph/rewrite.h"
#include "compile/lower/lowering.h"
#include "ir/names.h"
#include "ir/state/member_ranges.h"

namespace tessera::compile {
namespace {

// Returns the axes over which the gradient of a weight is partial, except kReplica, kShard and
// kContext, over which the gradient of every weight is partial. Experts are split over kExpert; all
// other weights are shared.
GroupRef partial_axes(const Value& weight, const Mesh& mesh) {
  GroupRef axes;
  for (const AxisKind a : {AxisKind::kExpert, AxisKind::kTensorKv, AxisKind::kTensor})
    if (weight.sharding.place[a] == kShared && mesh[a] > 1) axes.add(a);
  return axes;
}

// Returns the tensor axes of the mesh.
GroupRef tensor_axes(const Mesh& mesh) {
  GroupRef axes;
  for (const AxisKind a : {AxisKind::kTensorKv, AxisKind::kTensor})
    if (mesh[a] > 1) axes.add(a);
  return axes;
}

// Returns the tensor axes that divide the matrices of a weight. The directions of a group are added
// over these axes. A replicated matrix in the same buffer would be counted once per rank, so it is
// in another group, whose directions are not added over them.
GroupRef dividing_axes(const Value& weight, const Mesh& mesh) {
  GroupRef axes;
  for (const AxisKind a : {AxisKind::kTensorKv, AxisKind::kTensor})
    if (divides_matrices(weight, a, mesh)) axes.add(a);
  return axes;
}

// Weights that several blocks use may share a group, whichever blocks these are.
bool live_together(const WeightGroup& a, const WeightGroup& b) {
  const bool shared = a.blocks.size() > 1 && b.blocks.size() > 1;
  return (shared || a.blocks == b.blocks) && are_alike(a, b);
}

// A weight that several blocks use is not in the group of one block: its gradient is complete only
// when all of them have added to it. In a decoder's program (CompileRequest::reuse_encoder_output)
// some weights are not read at all, but keep the offsets that the program of the encoder gives them
// (Block::held).
GroupId group_for(Lowering& low, ValueId weight) {
  WeightGroup g;
  for (const BlockId b : low.graph.blocks.ids()) {
    const Block& block = low.graph.blocks[b];
    const bool held = std::count(block.held.begin(), block.held.end(), weight) > 0;
    if (held || readers(block.forward, weight) + readers(block.backward, weight) > 0)
      g.blocks.push_back(b);
  }
  CHECK(!g.blocks.empty(), "weight {} is used by no block", low.graph[weight].name);
  g.dtype = low.graph[weight].dtype;
  g.frozen = low.graph[weight].frozen;
  if (!g.frozen) g.partial = partial_axes(low.graph[weight], low.graph.mesh);
  if (!g.frozen) g.policy = low.graph[weight].policy;
  g.name = g.blocks.size() > 1 ? "shared" : low.graph.blocks[g.blocks[0]].name;
  if (g.frozen) g.name += ".frozen";
  if (g.frozen && g.dtype != type_of(low.context.request.precision))
    g.name += fmt::format(".{}", name_of(g.dtype));
  g.per_layer = (low.graph[weight].indexed_by & kPerLayer) != 0;
  // Weights that all layers of a stack share have other lifetimes than the layers' own weights, and
  // their gradients are complete at other times.
  g.common = !g.per_layer && low.graph.blocks[g.blocks[0]].is_stack();
  if (g.common) g.name += ".common";
  if (!g.partial.empty()) g.name += fmt::format(".{}", to_string(g.partial));
  if (g.policy == kBalancePolicy) g.name += ".balance";
  const bool rest = is_adamw_of(g.policy);
  const int64_t group = rest ? adamw_of(g.policy) : g.policy;
  if (group > 0) g.name += fmt::format(".group{}", group);
  if (rest) g.name += ".adamw";
  if (!g.frozen && updates_matrices(low, g)) {
    g.dividing = dividing_axes(low.graph[weight], low.graph.mesh);
    if (g.dividing.empty() && !tensor_axes(low.graph.mesh).empty())
      g.name += ".whole";
    else if (g.dividing != tensor_axes(low.graph.mesh))
      g.name += fmt::format(".divided_{}", to_string(g.dividing));
  }
  for (const GroupId known : low.out.groups.ids())
    if (live_together(low.out.groups[known], g)) return known;
  return low.out.groups.push_back(std::move(g));
}

}  // namespace

bool are_alike(const WeightGroup& a, const WeightGroup& b) {
  return a.frozen == b.frozen && a.dtype == b.dtype && a.common == b.common &&
         a.partial == b.partial && a.policy == b.policy && a.dividing == b.dividing;
}

void group_weights(Lowering& low) {
  std::map<GroupId, std::vector<ValueId>> members;
  for (const ValueId v : low.graph.values.ids())
    if (low.graph[v].role == Role::kWeight) members[group_for(low, v)].push_back(v);
  for (const GroupId id : low.out.groups.ids()) {
    WeightGroup& g = low.out.groups[id];
    const std::vector<ValueId>& weights = members.at(id);
    g.weights = buffer(low, g.name + kWeightsSuffix, weights, low.graph[weights[0]].indexed_by,
                       !low.context.zero.divides_weights());
    BufferKind& kind = low.out.program.kinds.back();
    const int64_t unit =
        low.context.zero.shards * kUnitElements * size_of(low.graph[weights[0]].dtype);
    kind.bytes = (kind.bytes + unit - 1) / unit * unit;
    for (const BlockId b : g.blocks)
      for (const int64_t stage : low.holders[b])
        if ((g.blocks.size() > 1 || g.common) &&
            !std::count(kind.stages.begin(), kind.stages.end(), stage))
          kind.stages.push_back(stage);
    std::sort(kind.stages.begin(), kind.stages.end());
    if (kind.stages.size() == 1) kind.stages.clear();
    if (low.context.zero.divides_weights())
      g.weights_shard =
          flat_buffer(low, g, "weights.shard", Role::kWeight, low.graph[weights[0]].dtype, true);
  }
}

}  // namespace tessera::compile
