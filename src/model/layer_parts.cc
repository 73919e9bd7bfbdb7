// Writes the heads of attention, their norm, attention of a layer's kind, and the loss of the LM
// head. The other parts of layers are in experts.cc and latent_attention.cc.
#include "model/layer_parts.h"

#include "base/error.h"
#include "model/family.h"

namespace tessera::model {
namespace {

// A part of the grouped heads' weight (and bias): the rows named `name`, of shape `out`.
struct PartOfHeads {
  const char* name;
  Shape out;
  ParentSlice of;
};

// Writes the GEMM for one part of a packed heads weight.
ValueId part_of_heads(BlockWriter& w, const std::string& heads, ValueId x, const PartOfHeads& part,
                      bool bias) {
  Graph& graph = w.builder().graph();
  const std::string own = heads + "." + part.name;
  std::vector<int64_t> dims = part.out.dims(), whole = part.of.shape.dims();
  dims.push_back(graph[x].shape[-1]);
  whole.push_back(dims.back());
  const auto set_parent = [&](ValueId v, const char* suffix, Shape shape) {
    graph[v].parent = {w.kind().stack + "." + heads + suffix, std::move(shape), part.of.first,
                       part.of.copies};
    if (part.of.copies > 1) return;
    graph[v].sharding.place[AxisKind::kTensorKv] = 0;
    graph[v].sharding.place[AxisKind::kTensor] = kShared;
  };
  const ValueId weight = w.matrix(own + ".weight", Shape(dims), std_in(w.model()), 0);
  set_parent(weight, ".weight", Shape(whole));
  const ValueId y = w.product(own, x, weight);
  if (!bias) return y;
  const ValueId b = w.vector(own + ".bias", part.out, 0, 0);
  set_parent(b, ".bias", part.of.shape);
  return w.sum(own, {y}, {b});
}

}  // namespace

// Queries, keys and values by one GEMM, packed as [K, G + 2, D]: the G queries of a group, its key,
// its value. If more tensor ranks than key/value heads exist, each head has r copies; queries are
// then divided among the copies, and keys and values of all K heads are repeated:
//
//   K = 1, G = 4, r = 2:   rank 0: q0 q1 k v     rank 1: q2 q3 k v
ValueId grouped_heads(BlockWriter& w, const std::string& name, ValueId x, bool bias,
                      bool separate) {
  const ModelConfig& m = w.model();
  const int64_t K = key_value_heads(m), G = m.heads / K, D = m.head_size();
  const int64_t r = w.batch().head_copies;
  const Shape packed{K, G + 2, D};
  if (r == 1) {
    const auto named = [&](ValueId v) {
      if (separate) w.name_parts(v, 1, {{"q", G}, {"k", 1}, {"v", 1}});
      return v;
    };
    const Shape all{K, G + 2, D, w.builder()[x].shape[-1]};
    const ValueId weight = named(w.matrix(name + ".weight", all, std_in(m), 0));
    if (!bias) return w.product(name, x, weight);
    const ValueId b = named(w.vector(name + ".bias", packed, 0, 0));
    return w.sum(name, {w.product(name, x, weight)}, {b});
  }
  CHECK(G % r == 0, "{} queries of a key/value head of {} copies", G, r);
  const PartOfHeads queries = {"queries", {K * r, G / r, D}, {"", packed, 0, r}};
  const PartOfHeads pairs = {"pairs", {K, 2, D}, {"", packed, G, 1}};
  const ValueId q = part_of_heads(w, name, x, queries, bias);
  const ValueId kv = part_of_heads(w, name, x, pairs, bias);
  const ValueId copies = w.builder().emit_one(RepeatHeads{.copies = r}, name + ".copies", {kv});
  return w.builder().emit_one(JoinHeads{}, name + ".joined", {q, copies});
}

ValueId head_norm(BlockWriter& w, const std::string& name, ValueId qkv, HeadNormForm form,
                  GainForm gains) {
  if (form == HeadNormForm::kAbsent) return qkv;
  Builder& builder = w.builder();
  const Shape packed = builder[qkv].shape;
  const int64_t K = packed[2], G = packed[3] - 2, D = packed[4];
  const bool whole = form == HeadNormForm::kWhole, offset = gains == GainForm::kLessOne;
  const HeadNorm a = {.epsilon = w.model().norm_epsilon, .unit_offset = offset, .whole = whole};
  const double start = offset ? 0 : 1;
  const int divided = whole ? 0 : static_cast<int>(kNone);
  const Shape query = whole ? Shape{K, G, D} : Shape{D}, key = whole ? Shape{K, D} : Shape{D};
  std::vector<ValueId> in = {qkv, w.vector(name + ".q_norm.gain", query, start, divided),
                             w.vector(name + ".k_norm.gain", key, start, divided)};
  if (whole) in.push_back(builder.emit_one(HeadSquares{}, name + ".norm", {qkv}));
  return builder.emit_one(a, name + ".norm", in);
}

ValueId self_attention(BlockWriter& w, ValueId qkv, bool sinks) {
  const ModelConfig& m = w.model();
  AttentionForm form;
  form.scale = attention_scale(m);
  form.value_width = m.latent.value_width;
  form.window = w.kind().window;
  form.soft_cap = m.attention_soft_cap;
  if (sinks) form.sinks = w.vector("attn.sinks", {m.heads}, 0, 0, std_in(m));
  return w.attention("attn", qkv, form);
}

void next_token_loss(BlockWriter& w, ValueId x, ValueId weight, int64_t depth) {
  const BatchValues& batch = w.batch();
  const double ratio = w.model().width_ratio();
  if (ratio != 1) x = w.scale("readout", x, 1 / ratio);
  const ValueId labels = depth == 0 ? batch.labels : batch.mtp_labels.at(depth - 1);
  const LossTerms terms = {.soft_cap = w.model().logit_soft_cap, .mtp = depth > 0};
  w.builder().emit(LinearCrossEntropy{.terms = terms}, "loss", {x, weight, labels}, {batch.report});
}

}  // namespace tessera::model
