// Rewrites linear_cross_entropy and cross_entropy as logits_max, logits_sums and
// vocab_parallel_cross_entropy, with a matmul before them if the logits were fused. The shard pass
// then inserts the reductions of vocabulary-parallel cross-entropy between them. With one tensor
// rank the fused op remains, which never stores all logits.
#include "compile/graph/graph_passes.h"
#include "ir/builder.h"

namespace tessera::compile {
namespace {

void append_parts(Graph& graph, Block& block, const Op& op, ValueId logits, ValueId labels) {
  Builder b(graph, block.forward, graph[op.inputs[0]].indexed_by, "");
  const LossTerms& terms = op.as<CrossEntropy>().terms;
  const double cap = terms.soft_cap;
  const ValueId max = b.emit_one(LogitsMax{cap}, op.origin, {logits});
  const ValueId sums = b.emit_one(LogitsSums{cap}, op.origin, {logits, max, labels});
  b.emit(VocabParallelCrossEntropy{.terms = terms}, op.origin, {logits, max, sums, labels},
         op.outputs);
}

}  // namespace

void divide_cross_entropy(Graph& graph) {
  unfuse_cross_entropy(graph);
  for (Block& block : graph.blocks) {
    std::vector<Op> old;
    old.swap(block.forward);
    for (Op& op : old) {
      if (op.is<CrossEntropy>())
        append_parts(graph, block, op, op.inputs[0], op.inputs[1]);
      else
        block.forward.push_back(std::move(op));
    }
  }
}

}  // namespace tessera::compile
