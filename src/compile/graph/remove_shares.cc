// Removes the op `share`, which matters only to gradients, once these exist.
#include "compile/graph/graph_passes.h"
#include "compile/graph/rewrite.h"

namespace tessera {

void remove_shares(Graph& graph) {
  for (Block& block : graph.blocks)
    for (std::vector<Op>* ops : {&block.forward, &block.backward})
      for (size_t i = 0; i < ops->size();) {
        if (!(*ops)[i].is<Share>()) {
          ++i;
          continue;
        }
        const ValueId from = (*ops)[i].outputs[0], to = (*ops)[i].inputs[0];
        ops->erase(ops->begin() + static_cast<std::ptrdiff_t>(i));
        replace_reads(block.forward, from, to);
        replace_reads(block.backward, from, to);
      }
}

}  // namespace tessera
