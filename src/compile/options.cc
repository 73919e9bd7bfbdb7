// Passes that turn a fused op into its parts, or a training graph into one that generates.
#include "base/error.h"
#include "compile/passes.h"
#include "ir/attention_operands.h"
#include "ir/builder.h"

namespace tessera {
namespace {

// Rewrites each op of that kind in all forwards: `expand` appends what stands in its place.
template <class Expand>
void replace_ops(Graph& graph, OpKind kind, Expand expand) {
  for (Block& block : graph.blocks) {
    std::vector<Op> old;
    old.swap(block.forward);
    for (Op& op : old) {
      if (op.kind == kind)
        expand(block, op);
      else
        block.forward.push_back(std::move(op));
    }
  }
}

uint8_t index_of(const Graph& g, const Op& op) { return g[op.inputs[0]].per; }

}  // namespace

void materialise_attention(Graph& graph, bool half) {
  replace_ops(graph, OpKind::kAttention, [&](Block& block, const Op& op) {
    if (op.attributes.has("across") || op.attributes.has("seen"))
      throw Error(
          "compiler.attention = materialised is for causal attention within one text, not for an "
          "encoder or data.documents_apart. Set it to fused, or data.documents_apart to false.");
    Builder b(graph, block.forward, index_of(graph, op), "");
    const ValueId qkv = op.inputs[0];
    Attributes scale = {{"scale", op.attributes.number("scale")}};
    if (half) scale.set("half", int64_t{1});
    const ValueId scores = b.emit_one(OpKind::kAttentionScores, op.origin, scale, {qkv});
    ValueId p = b.emit_one(OpKind::kSoftmax, op.origin, {}, {scores});
    if (op.attributes.number("dropout") > 0) {
      const Attributes drop = {{"p", op.attributes.number("dropout")},
                               {"key", op.attributes.integer("key")}};
      p = b.emit_one(OpKind::kDropout, op.origin + ".dropout", drop,
                     {p, op.inputs[1], op.inputs[2]});
    }
    b.emit(OpKind::kAttentionMix, op.origin, {}, {p, qkv}, {op.outputs[0]});
  });
}

void keep_masks(Graph& graph) {
  replace_ops(graph, OpKind::kDropout, [&](Block& block, const Op& op) {
    Builder b(graph, block.forward, index_of(graph, op), "");
    Attributes a = op.attributes;
    a.set("mask", int64_t{1});
    b.emit(OpKind::kDropout, op.origin, a, op.inputs, op.outputs);
  });
}

void unfuse_cross_entropy(Graph& graph) {
  replace_ops(graph, OpKind::kLinearCrossEntropy, [&](Block& block, const Op& op) {
    Builder b(graph, block.forward, index_of(graph, op), "");
    const ValueId logits =
        b.emit_one(OpKind::kMatmul, block.name + ".logits",
                   {{"contract", int64_t{1}}, {"out", "f32"}}, {op.inputs[0], op.inputs[1]});
    b.emit(OpKind::kCrossEntropy, op.origin, {}, {logits, op.inputs[2]}, op.outputs);
  });
}

void keep_logits(Graph& graph) {
  replace_ops(graph, OpKind::kLinearCrossEntropy, [&](Block& block, const Op& op) {
    Builder b(graph, block.forward, kOne, "");
    b.role(Role::kLogits);
    b.emit(OpKind::kMatmul, std::string(value_name(Role::kLogits)),
           {{"contract", int64_t{1}}, {"out", "f32"}}, {op.inputs[0], op.inputs[1]});
  });
}

namespace {

// What attends to an encoder's output reads its keys and values from a cache.
void keep_keys(Graph& graph, Block& block, const Op& op, bool encoded) {
  const ValueId keys = op.inputs[static_cast<size_t>(attention_operands(op.attributes, 1).across)];
  graph[keys].role = Role::kCache;
  graph[keys].per = kPerLayer;
  if (encoded)
    std::erase_if(block.forward, [&](const Op& made) { return made.outputs[0] == keys; });
}

// The program keeps all weights of the model, whichever of its ops it goes without.
void hold_weights(Graph& graph) {
  for (Block& block : graph.blocks)
    for (const Op& op : block.forward)
      for (const ValueId v : op.inputs)
        if (graph[v].role == Role::kWeight) block.held.push_back(v);
}

}  // namespace

void decode(Graph& graph, int64_t context, bool encoded) {
  ValueId positions = kNone;
  for (const ValueId i : graph.values.ids())
    if (graph[i].role == Role::kPositions) positions = i;
  CHECK(positions != kNone, "the graph has no positions");
  if (encoded) hold_weights(graph);
  replace_ops(graph, OpKind::kAttention, [&](Block& block, const Op& op) {
    if (op.attributes.has("whole")) {
      if (block.to != HiddenStream::kSource) keep_keys(graph, block, op, encoded);
      block.forward.push_back(op);
      return;
    }
    Builder b(graph, block.forward, index_of(graph, op), "");
    const Shape qkv = graph[op.inputs[0]].shape;
    const ValueId cache = b.value(block.name + ".cache", graph[op.inputs[0]].dtype,
                                  {qkv[0], context, 2, qkv[2], qkv[4]}, Role::kCache, kPerLayer);
    Attributes a = {{"scale", op.attributes.number("scale")}, {"context", context}};
    if (op.attributes.has("across")) a.set("across", int64_t{1});
    if (op.attributes.has("bias_distance"))
      a.set("bias_distance", op.attributes.integer("bias_distance"));
    std::vector<ValueId> in = op.inputs;  // none but the keys and the bias behind the queries
    in.insert(in.begin() + 1, positions);
    b.emit(OpKind::kCachedAttention, op.origin, a, in, {op.outputs[0], cache});
  });
  if (!encoded) return;
  graph[graph.memory].role = Role::kActivation;
  graph.memory = kNone;
}

}  // namespace tessera
