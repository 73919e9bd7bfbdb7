// Reverse-mode differentiation of one block. The ops are visited in reverse order; each rule adds
// its contributions to the gradients of its inputs (class Gradients in ir/builder.h adds them). The
// gradients at the borders are values of their own, d_hidden' (in) and d_hidden (out), so that
// blocks can be compiled separately.
#include "base/error.h"
#include "compile/graph/graph_passes.h"
#include "compile/graph/rewrite.h"
#include "ir/builder.h"
#include "ir/signature.h"

namespace tessera::compile {
namespace {

// Returns true for a loss op that does not compute its own gradient. Its gradient rule emits an op
// that computes the loss again, so the plain loss op is removed from the joint segment.
bool is_loss(const Op& op) {
  const auto has_gradient = [](const auto& a) {
    if constexpr (requires { a.gradient; })
      return a.gradient;
    else
      return false;
  };
  return rule_of(op).effects.loss && !std::visit(has_gradient, op.attributes);
}

ValueId stream_gradient(Graph& g, const Block& block, ValueId stream) {
  Value v = g[stream];
  v.name = block.name + ".d_hidden'";
  v.role = Role::kHiddenGradient;
  v.sharding = dual(v.sharding);
  return g.values.push_back(std::move(v));
}

// The gradient of the block's input must be a value of its own, not an alias of the output's
// gradient.
ValueId own_value(Builder& b, const Block& block, ValueId gradient) {
  if (gradient != block.output_gradient) return gradient;
  return b.emit_one(Sum{}, "d_hidden", {gradient});
}

// Adds the value that sums the gradients of the encoder output over all layers.
ValueId memory_gradient(Graph& g) {
  Value v = g[g.encoder_output];
  v.name = "d_memory";
  v.role = Role::kGradient;
  v.dtype = DType::kF32;
  v.sharding = dual(v.sharding);
  return g.values.push_back(std::move(v));
}

ValueId in_type_of(Builder& b, ValueId like, ValueId v) {
  if (b[like].dtype == b[v].dtype) return v;
  return b.emit_one(Cast{b[like].dtype}, "memory", {v});
}

void differentiate(Graph& graph, Block& block) {
  const ValueId sample = block.input != kNone ? block.input : block.output;
  const uint8_t per = block.is_stack() ? graph[sample].indexed_by : uint8_t{kPerMicrobatch};
  Builder b(graph, block.backward, per, "");
  b.role(Role::kScratch);
  b.place_outputs();
  Gradients g(b);
  if (block.output != kNone) {
    block.output_gradient = stream_gradient(graph, block, block.output);
    g.add(block.output, block.output_gradient);
  }
  const bool gives_memory = writer(block.forward, graph.encoder_output) >= 0;
  // The block that writes the encoder output starts from the summed gradient.
  if (gives_memory)
    g.add(graph.encoder_output, in_type_of(b, graph.encoder_output, graph.encoder_output_gradient));
  for (size_t i = block.forward.size(); i-- > 0;) {
    const Op op = block.forward[i];
    if (rule_of(op).gradient != nullptr) rule_of(op).gradient(g, op);
  }
  if (const ValueId d = g.of(graph.encoder_output); d != kNone && !gives_memory)
    b.emit(Accumulate{}, "memory", {d}, {graph.encoder_output_gradient});
  if (block.input != kNone) {
    const ValueId d = own_value(b, block, g.of(block.input));
    block.input_gradient = d;
    graph[d].role = Role::kHiddenGradient;
    graph[d].name = block.name + ".d_hidden";
    graph[d].indexed_by = graph[block.input].indexed_by;
  }
  // The last block runs forward and backward as one segment, so that logits need not be saved.
  if (!block.loss) return;
  std::vector<Op> joint;
  for (const Op& op : block.forward)
    if (!is_loss(op)) joint.push_back(op);
  joint.insert(joint.end(), block.backward.begin(), block.backward.end());
  block.backward = std::move(joint);
}

}  // namespace

void differentiate(Graph& graph) {
  if (graph.encoder_output != kNone) graph.encoder_output_gradient = memory_gradient(graph);
  for (Block& block : graph.blocks) differentiate(graph, block);
}

// Removes the ops `mark_shared`, which matter only for differentiation, after it.
void remove_mark_shared(Graph& graph) {
  for (Block& block : graph.blocks)
    for (std::vector<Op>* ops : {&block.forward, &block.backward})
      for (size_t i = 0; i < ops->size();) {
        if (!(*ops)[i].is<MarkShared>()) {
          ++i;
          continue;
        }
        const ValueId from = (*ops)[i].outputs[0], to = (*ops)[i].inputs[0];
        ops->erase(ops->begin() + i);
        replace_reads(block.forward, from, to);
        replace_reads(block.backward, from, to);
      }
}

}  // namespace tessera::compile
