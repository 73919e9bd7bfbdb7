// Passes that replace a fused op by its parts, or turn a training graph into one for generation.
//
// All are the same rewrite (replace_ops): each op of one type is replaced by a list of ops with the
// same outputs. Running them before differentiation means that no pass here handles gradients.
// Outputs keep their ids, so nothing that reads them changes.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "compile/graph/graph_passes.h"
#include "compile/graph/rewrite.h"
#include "ir/builder.h"
#include "ir/operands.h"

namespace tessera::compile {
namespace {

// Rewrites each op of type A in all forwards; `expand` appends the replacement.
template <class A, class Expand>
void replace_ops(Graph& graph, Expand expand) {
  for (Block& block : graph.blocks) {
    std::vector<Op> old;
    old.swap(block.forward);
    for (Op& op : old) {
      if (const A* const attributes = op.if_as<A>())
        expand(block, op, *attributes);
      else
        block.forward.push_back(std::move(op));
    }
  }
}

uint8_t index_of(const Graph& g, const Op& op) { return g[op.inputs[0]].indexed_by; }

}  // namespace

void materialize_attention(Graph& graph, bool half) {
  replace_ops<Attention>(graph, [&](Block& block, const Op& op, const Attention& fused) {
    if (fused.separate_kv || fused.mask != Mask::kNothing)
      throw Error(
          "compiler.attention = unfused supports only causal attention within one text, not an "
          "encoder or data.intra_document_masking. Set it to fused, or data.intra_document_masking "
          "to false.");
    Builder b(graph, block.forward, index_of(graph, op), "");
    const ValueId qkv = op.inputs[0];
    const AttentionScores of = {
        .scale = fused.scale, .window = fused.window, .soft_cap = fused.soft_cap, .half = half};
    const ValueId scores = b.emit_one(of, op.origin, {qkv});
    std::vector<ValueId> in = {scores};
    if (fused.sinks) in.push_back(input(op, Attention::kSinks));
    ValueId p = b.emit(Softmax{.sinks = fused.sinks}, op.origin, in)[0];
    if (fused.dropout > 0)
      p = b.emit_one(Dropout{.p = fused.dropout, .key = fused.key}, op.origin + ".dropout",
                     {p, input(op, Attention::kSamples), input(op, Attention::kStep)});
    b.emit(AttentionMix{fused.value_width}, op.origin, {p, qkv}, {op.outputs[0]});
  });
}

void gather_keys(Graph& graph, int64_t ring) {
  std::map<ValueId, std::vector<ValueId>> separated;  // queries, and pairs of a key and a value
  replace_ops<Attention>(graph, [&](Block& block, const Op& op, Attention attends) {
    CHECK(!attends.separate_kv && !attends.non_causal, "{} is not causal self-attention",
          op.origin);
    Builder b(graph, block.forward, index_of(graph, op), "");
    std::vector<ValueId> in = b.emit(SplitHeads{}, op.origin, {op.inputs[0]});
    separated[op.inputs[0]] = in;
    in.insert(in.end(), op.inputs.begin() + 1, op.inputs.end());
    attends.separate_kv = true;
    attends.ring = ring;
    b.emit(attends, op.origin, in, op.outputs);
  });
  // Scores are measured after the attention that reads the same heads. A ring gathers the keys for
  // them.
  replace_ops<MaxScores>(graph, [&](Block& block, const Op& op, MaxScores of) {
    Builder b(graph, block.forward, index_of(graph, op), "");
    std::vector<ValueId> in = separated.at(op.inputs[0]);
    in.insert(in.end(), op.inputs.begin() + 1, op.inputs.end());
    of.separate_kv = true;
    b.emit(of, op.origin, in, op.outputs);
  });
}

void store_dropout_masks(Graph& graph) {
  replace_ops<Dropout>(graph, [&](Block& block, const Op& op, Dropout kept) {
    Builder b(graph, block.forward, index_of(graph, op), "");
    kept.mask = true;
    b.emit(kept, op.origin, op.inputs, op.outputs);
  });
}

void save_expert_pairs(Graph& graph) {
  replace_ops<Experts>(graph, [&](Block& block, const Op& op, Experts saves) {
    Builder b(graph, block.forward, index_of(graph, op), "");
    saves.saves = true;
    b.emit(saves, op.origin, op.inputs, op.outputs);
  });
}

void drop_router_losses(Graph& graph) {
  replace_ops<RouterLoss>(graph, [](Block&, const Op&, const RouterLoss&) {});
}

void drop_expert_capacity(Graph& graph) {
  std::map<ValueId, ValueId> choices;  // by the kept ones
  replace_ops<ExpertCapacity>(graph, [&](Block&, const Op& op, const ExpertCapacity&) {
    choices.emplace(op.outputs[0], op.inputs[0]);
  });
  for (Block& block : graph.blocks)
    for (Op& op : block.forward)
      for (ValueId& in : op.inputs)
        if (const auto choice = choices.find(in); choice != choices.end()) in = choice->second;
}

void add_loss_terms(Graph& graph, const LossPolicy& loss) {
  int64_t depths = 0;
  for (const Block& block : graph.blocks)
    for (const Op& op : block.forward)
      if (op.is<LinearCrossEntropy>() && op.as<LinearCrossEntropy>().terms.mtp) ++depths;
  replace_ops<LinearCrossEntropy>(graph, [&](Block& block, const Op& op, LinearCrossEntropy has) {
    Builder b(graph, block.forward, index_of(graph, op), "");
    if (has.terms.mtp) {
      has.terms.weight = loss.mtp_weight / static_cast<double>(depths);
    } else {
      has.terms.z_loss = loss.z_loss;
      has.terms.label_smoothing = loss.label_smoothing;
    }
    b.emit(has, op.origin, op.inputs, op.outputs);
  });
}

void unfuse_cross_entropy(Graph& graph) {
  replace_ops<LinearCrossEntropy>(graph, [&](Block& block, const Op& op, const auto& fused) {
    Builder b(graph, block.forward, index_of(graph, op), "");
    const ValueId logits = b.emit_one(Matmul{.out = DType::kF32}, block.name + ".logits",
                                      {op.inputs[0], op.inputs[1]});
    b.emit(CrossEntropy{.terms = fused.terms}, op.origin, {logits, op.inputs[2]}, op.outputs);
  });
}

void keep_logits(Graph& graph) {
  replace_ops<LinearCrossEntropy>(graph, [&](Block& block, const Op& op, const auto& fused) {
    const std::string logits(value_name(Role::kLogits));
    Builder b(graph, block.forward, kOne, "");
    b.role(Role::kLogits);
    const Matmul product = {.out = DType::kF32};
    const double cap = fused.terms.soft_cap;
    if (cap == 0) {
      b.emit(product, logits, {op.inputs[0], op.inputs[1]});
      return;
    }
    Builder before(graph, block.forward, index_of(graph, op), "");
    const ValueId z = before.emit_one(product, logits + ".uncapped", {op.inputs[0], op.inputs[1]});
    b.emit(SoftCap{cap}, logits, {z});
  });
}

namespace {

// Cross-attention reads the keys and values of the encoder output from a cache.
void keep_keys(Graph& graph, Block& block, const Op& op, bool reuse_encoder_output) {
  const ValueId keys = input(op, Attention::kKv);
  graph[keys].role = Role::kCache;
  graph[keys].indexed_by = kPerLayer;
  if (reuse_encoder_output)
    std::erase_if(block.forward, [&](const Op& made) { return made.outputs[0] == keys; });
}

// Keeps the weights of a block in the program, including those of ops that it drops.
void hold_weights(const Graph& graph, Block& block) {
  for (const Op& op : block.forward)
    for (const ValueId v : op.inputs)
      if (graph[v].role == Role::kWeight) block.held.push_back(v);
}

// Returns true for a loss of multi-token prediction, in any form of the cross-entropy.
bool is_mtp_loss(const Op& op) {
  const auto is_mtp = [](const auto& a) {
    if constexpr (requires { a.terms.mtp; })
      return a.terms.mtp;
    else
      return false;
  };
  return std::visit(is_mtp, op.attributes);
}

// Removes the ops of a block that end in none of its results.
void remove_unread(const Graph& graph, Block& block) {
  for (size_t i = block.forward.size(); i-- > 0;) {
    const auto is_needed = [&](ValueId v) {
      return v == block.output || graph[v].role == Role::kReport || readers(block.forward, v) > 0;
    };
    if (std::ranges::none_of(block.forward[i].outputs, is_needed))
      block.forward.erase(block.forward.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace

// The modules are part of the block with the loss, whose own layers have no routers.
void drop_mtp(Graph& graph) {
  for (Block& block : graph.blocks) {
    if (!block.loss) continue;
    hold_weights(graph, block);
    std::erase_if(block.forward,
                  [](const Op& op) { return is_mtp_loss(op) || op.is<RouterLoss>(); });
    remove_unread(graph, block);
  }
  for (Value& v : graph.values)
    if (v.role == Role::kMtpTokens || v.role == Role::kMtpLabels) v.role = Role::kActivation;
}

// Generation: self-attention becomes attention with a cache of `context` positions. With
// `reuse_encoder_output`, the encoder has run before: its ops are gone, and cross-attention reads
// cached keys and values.
void decode(Graph& graph, int64_t context, bool reuse_encoder_output) {
  ValueId positions = kNone;
  for (const ValueId i : graph.values.ids())
    if (graph[i].role == Role::kPositions) positions = i;
  CHECK(positions != kNone, "the graph has no positions");
  for (Block& block : graph.blocks)
    if (reuse_encoder_output) hold_weights(graph, block);
  replace_ops<Attention>(graph, [&](Block& block, const Op& op, const Attention& a) {
    if (a.non_causal) {
      if (block.to != HiddenStream::kSource) keep_keys(graph, block, op, reuse_encoder_output);
      block.forward.push_back(op);
      return;
    }
    Builder b(graph, block.forward, index_of(graph, op), "");
    const Shape qkv = graph[op.inputs[0]].shape;
    const ValueId cache = b.value(block.name + ".cache", graph[op.inputs[0]].dtype,
                                  {qkv[0], context, 2, qkv[2], qkv[4]}, Role::kCache, kPerLayer);
    std::vector<ValueId> in = op.inputs;  // after the queries, only the keys, the bias and sinks
    in.insert(in.begin() + 1, positions);
    b.emit(CachedAttention{a.scale, a.value_width, context, a.separate_kv, a.window, a.soft_cap,
                           a.bias_distance, a.sinks},
           op.origin, in, {op.outputs[0], cache});
  });
  if (!reuse_encoder_output) return;
  graph[graph.encoder_output].role = Role::kActivation;
  graph.encoder_output = kNone;
}

}  // namespace tessera::compile
