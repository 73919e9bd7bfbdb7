// A block's forward and backward → its segments. With full recomputation the forward exists three
// times: whole, without saving anything, and again to save what the second did not. Only the first
// two add to the report and to the largest scores.
#include <map>

#include "base/error.h"
#include "compile/graph/rewrite.h"
#include "compile/lower/lowering.h"
#include "ir/builder.h"
#include "ir/rule.h"

namespace tessera::compile {
namespace {

// Copies ops, with new values; with keep_buffers, values in buffers are not copied.
std::vector<Op> clone_scratch(Lowering& low, std::vector<Op> ops, bool keep_buffers) {
  std::map<ValueId, ValueId> copy;
  for (Op& op : ops) {
    for (ValueId& v : op.inputs)
      if (copy.contains(v)) v = copy[v];
    for (ValueId& v : op.outputs) {
      if (low.graph[v].role != Role::kActivation || (keep_buffers && low.graph[v].buffer != kNone))
        continue;
      const auto [made, first] = copy.try_emplace(v);  // ops on other chunks of v make it, too
      if (first)
        made->second =
            copy_value(low.graph, v, keep_buffers ? CopyKind::kRecomputed : CopyKind::kNoSave);
      v = made->second;
    }
    if (op.workspace != kNone) op.workspace = clone_value(low.graph, op.workspace, "");
  }
  return ops;
}

// Drops the op that writes the block's output, and what only it needed.
void keep_saved(const Lowering& low, std::vector<Op>& ops, ValueId output) {
  for (size_t i = ops.size(); i-- > 0;) {
    const bool used = std::any_of(ops[i].outputs.begin(), ops[i].outputs.end(), [&](ValueId v) {
      return v != output && (low.graph[v].buffer != kNone || readers(ops, v) > 0);
    });
    if (!used) ops.erase(ops.begin() + i);
  }
}

// Writes the block's output to scratch, where it is not read.
void give_away(Lowering& low, std::vector<Op>& ops, ValueId output) {
  for (Op& op : ops)
    for (ValueId& v : op.outputs)
      if (v == output) {
        v = copy_value(low.graph, output, CopyKind::kRecomputed);
        low.graph[v].role = Role::kScratch;
      }
}

}  // namespace

void block_segments(Lowering& low, const Block& block, BlockSegments& out) {
  if (!(block.loss && low.trains())) {
    const std::vector<Op>& forward = block.forward;
    const int64_t recomputed =
        block.is_stack() && low.trains() ? low.context.recompute.full_layers : 0;
    if (recomputed > 0) {
      out.forward_no_save =
          segment(low, Phase::kForwardNoSave, block.name, clone_scratch(low, forward, false));
      std::vector<Op> again = clone_scratch(low, forward, true);
      std::erase_if(again, [](const Op& op) {
        return rule_of(op).effects.adds_to_report || rule_of(op).effects.measures_step;
      });
      if (low.context.request.options.full_recompute == FullRecompute::kAll)
        give_away(low, again, block.output);
      else
        keep_saved(low, again, block.output);
      out.recompute = segment(low, Phase::kRecompute, block.name, std::move(again));
    }
    if (recomputed < low.context.request.model.all_layers())
      out.forward = segment(low, Phase::kForward, block.name, forward);
  }
  if (low.trains() && !block.backward.empty())
    out.backward =
        segment(low, block.loss ? Phase::kJoint : Phase::kBackward, block.name, block.backward);
  if (!block.weights.empty())
    out.weight_backward = segment(low, Phase::kWeightBackward, block.name, block.weights);
}

}  // namespace tessera::compile
