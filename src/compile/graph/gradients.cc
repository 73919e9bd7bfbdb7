// The dtype of weight-gradient sums, and whether a GEMM adds to the sum itself.
#include <algorithm>

#include "base/error.h"
#include "compile/graph/graph_passes.h"
#include "compile/graph/rewrite.h"
#include "ir/rule.h"

namespace tessera::compile {
namespace {

bool is_sum(const Graph& g, ValueId v) {
  return g[v].role == Role::kGradient && v != g.encoder_output_gradient;
}

void add_into(Op& op, DType type) {
  DType* const into = sum_type(op.attributes);
  CHECK(into != nullptr, "{} ({}) adds to no sum", op.origin, name_of(op.kind()));
  *into = type;
}

// Splits an op that adds to a gradient sum: the op alone, in the dtype of the weights, then the
// addition.
std::vector<Op> apart(Graph& g, Op product, DType type) {
  const ValueId sum = product.outputs[0], one = clone_value(g, sum, ".once");
  g[one].role = Role::kScratch;
  g[one].dtype = type;
  Op add;
  add.attributes = Accumulate{};
  add.inputs = {one};
  add.outputs = {sum};
  add.origin = product.origin;
  add_into(add, g[sum].dtype);
  product.outputs[0] = one;
  add_into(product, type);
  return {std::move(product), std::move(add)};
}

}  // namespace

// Every op that adds to a sum states the dtype of the sum, so the dtypes of its outputs are
// inferred again.
void narrow_gradients(Graph& graph, DType type) {
  for (Block& b : graph.blocks)
    for (std::vector<Op>* ops : {&b.backward, &b.weights})
      for (Op& op : *ops) {
        const auto sums = [&](ValueId v) { return is_sum(graph, v); };
        if (std::none_of(op.outputs.begin(), op.outputs.end(), sums)) continue;
        add_into(op, type);
        infer_types(graph, op);
      }
}

// Only ops that libraries compute without adding are split: the GEMMs and the embedding's gradient.
// Gradients of biases and gains are small and stay fused.
void separate_accumulation(Graph& graph, DType type) {
  for (Block& b : graph.blocks)
    for (std::vector<Op>* ops : {&b.backward, &b.weights}) {
      std::vector<Op> out;
      for (Op& op : *ops) {
        const bool adds = op.is<MatmulGradWeight>() || op.is<EmbeddingGrad>();
        if (adds && is_sum(graph, op.outputs[0]))
          for (Op& made : apart(graph, std::move(op), type)) out.push_back(std::move(made));
        else
          out.push_back(std::move(op));
      }
      *ops = std::move(out);
    }
}

}  // namespace tessera::compile
