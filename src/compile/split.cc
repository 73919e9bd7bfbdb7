#include <algorithm>
#include <set>

#include "compile/passes.h"

namespace tessera {
namespace {

// Backwards from the gradient of the input: which ops it needs. An op that makes a part of it as
// well as gradients of weights (a norm's) counts as needed.
void split_backward(Block& block) {
  std::set<ValueId> needed = {block.input_gradient};
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
  block.backward = std::move(inputs);
  block.weights = std::move(weights);
}

}  // namespace

void split_backward(Graph& graph) {
  for (Block& b : graph.blocks)
    if (!b.loss && b.input_gradient != kNone) split_backward(b);
}

}  // namespace tessera
