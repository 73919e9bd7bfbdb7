// A block's forward and backward → its segments. With full recomputation the forward exists three
// times: whole, without saving anything, and again to save what the second did not.
#include <map>

#include "base/error.h"
#include "compile/expander.h"
#include "compile/rewrite.h"
#include "ir/builder.h"

namespace tessera {

// The same ops on values of their own; with keep_frames, what lies in frames stays where it is.
std::vector<Op> Expander::clone_scratch(std::vector<Op> ops, bool keep_frames) {
  std::map<ValueId, ValueId> copy;
  for (Op& op : ops) {
    for (ValueId& v : op.inputs)
      if (copy.contains(v)) v = copy[v];
    for (ValueId& v : op.outputs) {
      if (g_[v].role != Role::kActivation || (keep_frames && g_[v].frame != kNone)) continue;
      copy[v] = copy_value(g_, v, keep_frames ? CopyKind::kRecomputed : CopyKind::kNoSave);
      v = copy[v];
    }
    if (op.workspace != kNone) op.workspace = clone_value(g_, op.workspace, "");
  }
  return ops;
}

// Drops the op that writes the block's output, and what only it needed.
void Expander::keep_saved(std::vector<Op>& ops, ValueId output) const {
  for (size_t i = ops.size(); i-- > 0;) {
    const bool used = std::any_of(ops[i].outputs.begin(), ops[i].outputs.end(), [&](ValueId v) {
      return v != output && (g_[v].frame != kNone || readers(ops, v) > 0);
    });
    if (!used) ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// The block's output goes to scratch, where nobody reads it.
void Expander::give_away(std::vector<Op>& ops, ValueId output) {
  for (Op& op : ops)
    for (ValueId& v : op.outputs)
      if (v == output) {
        v = copy_value(g_, output, CopyKind::kRecomputed);
        g_[v].role = Role::kScratch;
      }
}

void Expander::block_segments(const Block& block, BlockSegments& out) {
  if (!(block.loss && trains())) {
    const std::vector<Op>& forward = block.forward;
    const int64_t recomputed = block.is_stack() && trains() ? recompute_.full_layers : 0;
    if (recomputed > 0) {
      out.forward_no_save =
          segment(Phase::kForwardNoSave, block.name, clone_scratch(forward, false));
      std::vector<Op> again = clone_scratch(forward, true);
      if (request_.options.again == AgainKind::kWhole)
        give_away(again, block.output);
      else
        keep_saved(again, block.output);
      out.recompute = segment(Phase::kRecompute, block.name, std::move(again));
    }
    if (recomputed < request_.model.all_layers())
      out.forward = segment(Phase::kForward, block.name, forward);
  }
  if (trains() && !block.backward.empty())
    out.backward =
        segment(block.loss ? Phase::kJoint : Phase::kBackward, block.name, block.backward);
  if (!block.weights.empty())
    out.weight_backward = segment(Phase::kWeightBackward, block.name, block.weights);
}

}  // namespace tessera
