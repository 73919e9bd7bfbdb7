// Selective recomputation (Korthikanti et al. 2022): cheap ops of the forward run again in the
// backward, so their outputs are not saved. Each clone is inserted directly before its first
// reader.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "compile/graph/graph_passes.h"
#include "compile/graph/rewrite.h"
#include "ir/rule.h"

namespace tessera::compile {
namespace {

// Returns true for the dropout of attention weights. The masks of other dropouts are kept.
bool drops_weights(const Block& block, const Op& op) {
  if (!op.is<Dropout>()) return false;
  const int from = writer(block.forward, op.inputs[0]);
  return from >= 0 && block.forward[from].is<Softmax>();
}

bool is_repeated(const Block& block, const Op& op, SelectiveRecompute what) {
  if (drops_weights(block, op)) return true;
  const Repeat repeat = rule_of(op).repeat;
  return repeat == Repeat::kAttention ||
         (repeat == Repeat::kCheap && what == SelectiveRecompute::kCheap);
}

// Returns the ops to run again, in order: cheap ones with an output that the backward, or another
// repeated op, reads. Walking backwards finds the transitive inputs in one pass.
std::vector<Op> repeated(const Block& block, SelectiveRecompute what) {
  std::vector<Op> ops;
  for (size_t i = block.forward.size(); i-- > 0;) {
    const Op& op = block.forward[i];
    const bool needed = std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) {
      return readers(block.backward, v) + readers(ops, v) > 0;
    });
    const bool leaves =
        std::find(op.outputs.begin(), op.outputs.end(), block.output) != op.outputs.end();
    if (is_repeated(block, op, what) && needed && !leaves) ops.insert(ops.begin(), op);
  }
  return ops;
}

void recompute_selective(Graph& graph, Block& block, SelectiveRecompute what) {
  std::map<ValueId, ValueId> again;  // forward value → its clone
  std::vector<Op> clones = repeated(block, what);
  for (Op& clone : clones) {
    for (ValueId& v : clone.inputs)
      if (again.contains(v)) v = again[v];
    for (ValueId& v : clone.outputs) {
      const ValueId copy = copy_value(graph, v, CopyKind::kRecomputed);
      graph[copy].role = Role::kScratch;
      again[v] = copy;
      v = copy;
    }
  }
  for (const auto& [from, to] : again) replace_reads(block.backward, from, to);
  // Each clone is inserted right before its first reader, so that its outputs have short lifetimes.
  for (size_t c = clones.size(); c-- > 0;) {
    const auto reads = [&](const Op& op) {
      return std::any_of(clones[c].outputs.begin(), clones[c].outputs.end(), [&](ValueId v) {
        return std::find(op.inputs.begin(), op.inputs.end(), v) != op.inputs.end();
      });
    };
    const auto first = std::find_if(block.backward.begin(), block.backward.end(), reads);
    CHECK(first != block.backward.end(), "{} is recomputed, but no op of the backward reads it",
          clones[c].origin);
    block.backward.insert(first, clones[c]);
  }
}

}  // namespace

void recompute_selective(Graph& graph, SelectiveRecompute what) {
  for (Block& block : graph.blocks)
    if (!block.loss) recompute_selective(graph, block, what);
}

}  // namespace tessera::compile
