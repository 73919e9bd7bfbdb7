// Peephole fusions that save passes over memory: a bias into GELU, and a residual sum into the norm
// that follows it.
#include <algorithm>

#include "base/error.h"
#include "compile/graph/graph_passes.h"
#include "compile/graph/rewrite.h"

namespace tessera::compile {
namespace {

int total_readers(const Block& block, ValueId v) {
  return readers(block.forward, v) + readers(block.backward, v) + (block.output == v ? 1 : 0);
}

bool is_bias_sum(const Op& op) {
  const Sum* const sum = op.if_as<Sum>();
  return sum != nullptr && sum->terms == 1 && op.inputs.size() == 2;
}

bool is_norm(const Op& op) { return op.is<Norm>() || op.is<RmsNorm>(); }

// Replaces norm(sum(terms; biases), gain, bias) by one op at the position of the sum. The sum stays
// an output, because the residual stream needs it.
void fuse_norm(std::vector<Op>& ops, size_t sum, size_t norm) {
  const Op& s = ops[sum];
  Op fused = ops[norm];
  const int64_t terms = s.as<Sum>().terms;
  const auto sum_up = [&](auto& attributes) {
    attributes.terms = terms;
    attributes.biases = std::ssize(s.inputs) - terms;
  };
  if (Norm* const layer = fused.if_as<Norm>())
    sum_up(*layer);
  else
    sum_up(fused.as<RmsNorm>());
  fused.inputs = s.inputs;
  fused.inputs.insert(fused.inputs.end(), ops[norm].inputs.begin() + 1, ops[norm].inputs.end());
  fused.outputs.push_back(s.outputs[0]);
  ops[sum] = std::move(fused);
  ops.erase(ops.begin() + norm);
}

void fuse_residual_norm(std::vector<Op>& ops) {
  for (size_t i = 0; i < ops.size(); ++i) {
    if (!ops[i].is<Sum>() || ops[i].inputs.size() < 2) continue;
    for (size_t j = i + 1; j < ops.size(); ++j)
      if (is_norm(ops[j]) && ops[j].inputs[0] == ops[i].outputs[0] && ops[j].outputs.size() == 2) {
        fuse_norm(ops, i, j);
        break;
      }
  }
}

// Removes ops whose outputs are never read, from last to first, so that one pass also finds ops
// that only dead ops read. Outputs with a role other than activation or scratch leave the block and
// count as read.
void remove_dead(const Graph& graph, const Block& block, std::vector<Op>& ops,
                 const std::vector<Op>& later) {
  for (size_t i = ops.size(); i-- > 0;) {
    const bool used = std::any_of(ops[i].outputs.begin(), ops[i].outputs.end(), [&](ValueId v) {
      const Role r = graph[v].role;
      return (r != Role::kActivation && r != Role::kScratch) || v == block.output ||
             readers(ops, v) > 0 || readers(later, v) > 0;
    });
    if (!used) ops.erase(ops.begin() + i);
  }
}

}  // namespace

void fuse_bias_gelu(Graph& graph) {
  for (Block& block : graph.blocks) {
    for (size_t i = 0; i < block.forward.size(); ++i) {
      Op& op = block.forward[i];
      Gelu* const gelu = op.if_as<Gelu>();
      if (gelu == nullptr || gelu->bias) continue;
      const int s = writer(block.forward, op.inputs[0]);
      if (s < 0 || !is_bias_sum(block.forward[s]) ||
          // Only if GELU is the sum's single reader; otherwise the sum must be stored in any case.
          total_readers(block, op.inputs[0]) != 1)
        continue;
      op.inputs = block.forward[s].inputs;
      gelu->bias = true;
      block.forward.erase(block.forward.begin() + s);
      --i;
    }
  }
}

void fuse_residual_norm(Graph& graph) {
  for (Block& block : graph.blocks) {
    fuse_residual_norm(block.forward);
    if (block.loss) fuse_residual_norm(block.backward);
  }
}

void remove_dead_ops(Graph& graph) {
  for (Block& block : graph.blocks) {
    const std::vector<Op> none;
    remove_dead(graph, block, block.backward, none);
    remove_dead(graph, block, block.forward, block.backward);
  }
}

}  // namespace tessera::compile
