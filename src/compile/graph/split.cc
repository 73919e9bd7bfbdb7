// Splits the backward of a block into input gradients and weight gradients, for zero-bubble
// schedules (Qi et al. 2024): the first part is on the critical path of the pipeline, the second
// fills its bubbles.
#include <algorithm>
#include <set>

#include "compile/graph/graph_passes.h"
#include "compile/graph/rewrite.h"

namespace tessera::compile {
namespace {

// If an op computes an input gradient and weight gradients together (as a norm does), it stores the
// latter, and the second part adds them, so that only one segment adds to the gradient sums.
std::vector<Op> leave_for_later(Graph& graph, std::vector<Op>& inputs) {
  std::vector<Op> additions;
  for (Op& op : inputs)
    for (ValueId& v : op.outputs) {
      if (graph[v].role != Role::kGradient || v == graph.encoder_output_gradient) continue;
      const ValueId gradient = v;
      v = clone_value(graph, gradient, ".part");
      graph[v].role = Role::kScratch;
      Op add;
      add.attributes = BiasGrad{.dims = graph[v].shape.rank()};
      add.inputs = {v};
      add.outputs = {gradient};
      add.origin = op.origin;
      additions.push_back(std::move(add));
    }
  return additions;
}

// Collects the ops that the gradients of the input and of the encoder output need, walking
// backwards from these.
void split_backward(Graph& graph, Block& block) {
  std::set<ValueId> needed = {block.input_gradient, graph.encoder_output_gradient};
  needed.erase(kNone);
  std::vector<Op> inputs, weights;
  for (size_t i = block.backward.size(); i-- > 0;) {
    const Op& op = block.backward[i];
    const bool wanted = std::any_of(op.outputs.begin(), op.outputs.end(),
                                    [&](ValueId v) { return needed.contains(v); });
    if (wanted) needed.insert(op.inputs.begin(), op.inputs.end());
    (wanted ? inputs : weights).push_back(op);
  }
  std::reverse(inputs.begin(), inputs.end());
  std::reverse(weights.begin(), weights.end());
  const std::vector<Op> additions = leave_for_later(graph, inputs);
  weights.insert(weights.begin(), additions.begin(), additions.end());
  block.backward = std::move(inputs);
  block.weights = std::move(weights);
}

}  // namespace

void split_backward(Graph& graph) {
  for (Block& b : graph.blocks)
    if (!b.loss && b.input_gradient != kNone) split_backward(graph, b);
}

}  // namespace tessera::compile
