// Puts the collectives of tensor and expert parallelism on queues of their own. For those of tensor
// parallelism it also divides the ops of layers into chunks of sequences, so that a collective of
// one chunk can overlap with the computation of another (as in Domino, Wang et al. 2024).
#include <algorithm>

#include "compile/graph/graph_passes.h"
#include "ir/chunk.h"
#include "ir/op_order.h"
#include "ir/rule.h"

namespace tessera::compile {
namespace {

// Returns true for a collective over some of these axes and no other one.
bool is_along(const Op& op, const GroupRef& axes) {
  if (!communicates(op) || is_message(op)) return false;
  const GroupRef& over = *over_of(op.attributes);
  GroupRef others = over;
  others.axes &= static_cast<uint8_t>(~axes.axes);
  return over.kind == GroupRef::Kind::kAxes && !over.empty() && others.empty();
}

// Moves the collectives of each layer over these axes to an inner queue.
void move_to(Queue queue, Graph& graph, const GroupRef& axes) {
  for (Block& b : graph.blocks)
    if (b.is_stack())
      for (std::vector<Op>* const ops : {&b.forward, &b.backward})
        for (Op& op : *ops)
          if (is_along(op, axes)) op.queue = queue;
}

// Returns the number of sequences of a micro-batch on one rank, which is that of the inputs of
// collectives over tensor ranks; 0 if there are none.
int64_t sequences_of(const Graph& g, const std::vector<Op>& ops) {
  for (const Op& op : ops)
    if (op.queue == Queue::kTensor) return g[op.inputs[0]].local()[0];
  return 0;
}

// Returns true if all operands that an op reads or writes in chunks have that number of sequences.
// Ops that add to gradients are not divided: the first dimension of a weight may have the same
// extent by chance, and the first op that adds to its gradient overwrites all of it.
bool has_sequences(const Graph& g, const Op& op, int64_t sequences) {
  const auto chunked = chunked_operands(op, g.values);
  if (!chunked) return false;
  for (const ValueId v : op.outputs)
    if (g[v].role == Role::kGradient) return false;
  const auto fits = [&](ValueId v) { return g[v].local()[0] == sequences; };
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (chunked->inputs[i] && !fits(op.inputs[i])) return false;
  return std::all_of(op.outputs.begin(), op.outputs.end(), fits);
}

std::vector<Op> in_chunks(const Graph& g, std::vector<Op> ops, int64_t most) {
  const int64_t sequences = sequences_of(g, ops);
  int64_t count = std::min(most, sequences);
  while (count > 1 && sequences % count != 0) --count;
  if (count < 2) return ops;
  std::vector<Op> chunks;
  for (Op& op : ops) {
    if (!has_sequences(g, op, sequences)) {
      chunks.push_back(std::move(op));
      continue;
    }
    for (int64_t k = 0; k < count; ++k) {
      chunks.push_back(op);
      chunks.back().chunk = {static_cast<int32_t>(k), static_cast<int32_t>(count)};
    }
  }
  return chunks;
}

}  // namespace

void assign_queues(Graph& graph) {
  move_to(Queue::kTensor, graph, GroupRef::along({AxisKind::kTensorKv, AxisKind::kTensor}));
}

void assign_expert_queue(Graph& graph) {
  move_to(Queue::kExpert, graph, GroupRef::along({AxisKind::kExpert}));
}

void chunk_layers(Graph& graph, int64_t chunks) {
  for (Block& b : graph.blocks)
    for (std::vector<Op>* const ops : {&b.forward, &b.backward})
      if (uses_inner_queues(*ops)) *ops = in_chunks(graph, std::move(*ops), chunks);
}

}  // namespace tessera::compile
