// Selects weights by name patterns: which are trained, and which optimizer updates them.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "compile/graph/graph_passes.h"
#include "compile/graph/name_patterns.h"
#include "model/adapter_modules.h"

namespace tessera::compile {
namespace {

std::vector<std::string> weight_names(const Graph& g) {
  std::vector<std::string> names;
  for (const Value& v : g.values)
    if (v.role == Role::kWeight) names.push_back(checkpoint_name(v));
  return names;
}

bool is_adapter(const std::string& name) {
  return name.ends_with(model::kLoraA) || name.ends_with(model::kLoraB) ||
         name.ends_with(model::kLoraMagnitude);
}

// The matrices of layers: weights of GEMMs and of experts. A block with a loss has those of
// multi-token prediction; the GEMM of its head is part of the loss, or has an f32 result that a
// loss of preferences reads.
struct LayerMatrices {
  std::set<ValueId> hidden, routers;
};

LayerMatrices layer_matrices(const Graph& g) {
  LayerMatrices out;
  std::set<ValueId> routed;
  // The logits of a router are a GEMM's output, or its sum with a bias.
  for (const Block& b : g.blocks)
    for (auto op = b.forward.rbegin(); op != b.forward.rend(); ++op) {
      if (op->is<Route>()) routed.insert(op->inputs[Route::kLogits]);
      if (op->is<Sum>() && routed.contains(op->outputs[0])) routed.insert(op->inputs[0]);
    }
  for (const Block& b : g.blocks) {
    if (!b.is_stack() && !b.loss) continue;
    for (const Op& op : b.forward) {
      if (op.is<Experts>()) out.hidden.insert({op.inputs[Experts::kUp], op.inputs[Experts::kDown]});
      if (!op.is<Matmul>()) continue;
      const bool routes = routed.contains(op.outputs[0]);
      if (b.loss && !routes && op.as<Matmul>().out) continue;
      (routes ? out.routers : out.hidden).insert(op.inputs[Matmul::kW]);
    }
  }
  std::erase_if(out.hidden, [&](ValueId v) { return is_adapter(g[v].name); });
  return out;
}

}  // namespace

// All patterns are checked before a weight is marked: a misspelled pattern is an error, not a run
// that trains everything.
void freeze(Graph& g, const std::vector<std::string>& patterns) {
  require_matches("optimizer.freeze", patterns, "weight", weight_names(g));
  bool trains = false;
  for (Value& v : g.values) {
    if (v.role != Role::kWeight) continue;
    if (matches_any(patterns, checkpoint_name(v))) v.frozen = true;
    trains = trains || !v.frozen;
  }
  if (!trains)
    throw Error(
        "optimizer.freeze matches every weight and leaves nothing to train. Remove a pattern.");
}

// A weight belongs to the first group with a matching pattern. Groups are numbered from 1; 0 is the
// run's own optimizer.
void assign_optimizers(Graph& g, const std::vector<OptimizerGroup>& groups,
                       const OptimizerPolicy& own) {
  const std::vector<std::string> names = weight_names(g);
  size_t given = 0;  // groups of the run file
  for (const OptimizerGroup& group : groups)
    if (!group.matrices_only)
      require_matches(fmt::format("optimizer.groups[{}].match", given++), group.match, "weight",
                      names);
  const LayerMatrices matrices = layer_matrices(g);
  for (const ValueId id : g.values.ids()) {
    Value& v = g[id];
    if (v.role != Role::kWeight || v.policy == kBalancePolicy) continue;
    const bool in_layer = matrices.hidden.contains(id) || matrices.routers.contains(id);
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const OptimizerGroup& x) {
      return (in_layer || !x.matrices_only) && matches_any(x.match, checkpoint_name(v));
    });
    v.policy = group == groups.end() ? 0 : group - groups.begin() + 1;
    const OptimizerPolicy& policy = group == groups.end() ? own : group->policy;
    const bool updated = policy.all_matrices ? v.decays : matrices.hidden.contains(id);
    if (traits_of(policy.kind).matrices && !updated) v.policy = adamw_of(v.policy);
  }
}

}  // namespace tessera::compile
