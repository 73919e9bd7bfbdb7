// Families built like LLaMA (Touvron et al. 2023): RMS norms, a gated feed-forward layer, RoPE,
// grouped-query attention.
//
//   ours                        Hugging Face: model.…, Linear is [out, in]
//   embed.weight [V,F]          embed_tokens.weight
//   layerI.attn.qkv.weight      layers.I.self_attn.q_proj.weight [K·G·D,F], k_proj [K·D,F], v_proj:
//     [K,G+2,D,F]               a group of G queries, their key, their value;
//                               or qkv_proj: all queries, all keys, all values
//   layerI.attn.qkv.bias        q_proj.bias, k_proj.bias, v_proj.bias, where a family has them;
//                               likewise attn.out.bias [F], o_proj.bias
//   layerI.attn.sinks [H]       layers.I.self_attn.sinks, where a family has them
//   layerI.attn.out.weight      layers.I.self_attn.o_proj.weight [F,H·D]
//   layerI.mlp.up.weight        layers.I.mlp.gate_proj.weight [M,F], up_proj.weight: a gate and a
//     [M,2,F]                   value for each inner unit; or gate_up_proj: all gates, all values
//   layerI.mlp.down.weight      layers.I.mlp.down_proj.weight [F,M]
//   layerI.attn.q_norm.gain     layers.I.self_attn.q_norm.weight [D] or [H·D]; likewise k_norm
//   head.norm.gain              norm.weight
//   head.weight [V,F]           lm_head.weight, without the prefix
//
//   norms                       before               after                  at both places
//   layerI.norm1.gain           input_layernorm      -                      input_layernorm
//   layerI.post_norm1.gain      -                    post_attention_… post_attention_layernorm
//   layerI.norm2.gain           post_attention_…     - pre_feedforward_layernorm
//   layerI.post_norm2.gain      -                    post_feedforward_… post_feedforward_layernorm
#include "model/llama_like.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/error.h"

namespace tessera::model {
namespace {

ValueId norm_before(BlockWriter& w, const LlamaForm& form, const std::string& name, ValueId x) {
  return form.norms == NormPlaces::kAfter ? x : w.rms_norm(name, x, form.gains);
}
ValueId norm_after(BlockWriter& w, const LlamaForm& form, const std::string& name, ValueId x) {
  return form.norms == NormPlaces::kBefore ? x : w.rms_norm("post_" + name, x, form.gains);
}

GateForm gate_of(const ModelConfig& m, const LlamaForm& form) {
  if (!form.gelu_gate) return form.experts.gate;
  return m.gelu == GeluForm::kTanh ? GateForm::kTanh : GateForm::kErf;
}

// An MLP, or one that all tokens pass through next to their experts.
ValueId feed_forward(BlockWriter& w, const LlamaForm& form, const std::string& name, ValueId x,
                     int64_t inner) {
  const ModelConfig& m = w.model();
  const int64_t F = m.hidden;
  const ValueId up = w.matrix(name + ".up.weight", {inner, 2, F}, std_in(m), 0);
  if (!form.fused_files) w.name_parts(up, 1, {{"gate", 1}, {"up", 1}});
  const ValueId pairs = w.product(name + ".up", x, up);
  const ValueId down = w.matrix(name + ".down.weight", {F, inner}, std_out(m), 1);
  const ValueId gated = w.gated_activation(name + ".gate", pairs, gate_of(m, form));
  return w.product(name + ".down", gated, down);
}

// The MLP of a layer, or its experts and the MLP that they share tokens with.
ValueId feed_forward(BlockWriter& w, const LlamaForm& form, ValueId x, const LayerKind& kind) {
  if (!kind.experts) return feed_forward(w, form, "mlp", x, kind.feed_forward);
  const ValueId routed = experts(w, "mlp", x, kind.feed_forward, form.experts);
  const int64_t shared = w.model().shared_feed_forward;
  if (shared == 0) return routed;
  return w.sum("mlp.sum", {routed, feed_forward(w, form, "mlp.shared", x, shared)});
}

// One layer: from the hidden states that it reads to those that the next one reads.
ValueId layer(BlockWriter& w, const LlamaForm& form, const LayerKind& kind, ValueId x) {
  const ModelConfig& m = w.model();
  const int64_t F = m.hidden, H = m.heads;
  CHECK(H % key_value_heads(m) == 0, "{} heads in {} groups", H, key_value_heads(m));
  const ValueId normed = norm_before(w, form, "norm1", x);
  const ValueId packed =
      form.latent ? latent_heads(w, "attn", normed)
                  : grouped_heads(w, "attn.qkv", normed, form.head_biases, !form.fused_files);
  const ValueId qkv = w.rotary(head_norm(w, "attn", packed, form.head_norm, form.gains));
  const ValueId out = w.matrix("attn.out.weight", {F, H, m.value_size()}, std_out(m), 1);
  ValueId mixed = w.product("attn.out", self_attention(w, qkv, form.sinks), out, 2);
  if (form.out_bias) mixed = w.sum("attn.out.sum", {mixed}, {w.vector("attn.out.bias", {F}, 0)});
  const ValueId attended = norm_after(w, form, "norm1", mixed);
  const ValueId middle = w.sum("residual1", {x, w.dropout("attn.drop", attended)});

  const ValueId inner = feed_forward(w, form, norm_before(w, form, "norm2", middle), kind);
  const ValueId fed = norm_after(w, form, "norm2", inner);
  return w.sum("residual2", {middle, w.dropout("mlp.drop", fed)});
}

ValueId embed(BlockWriter& w, const LlamaForm& form, ValueId ids, ValueId table) {
  const ValueId x = w.embedding("tokens", ids, table);
  if (!form.scaled_embedding) return x;
  // With muP, the factor is that of the base width.
  const double width = static_cast<double>(w.model().hidden) / w.model().width_ratio();
  return w.scale("scale", x, std::sqrt(width), true);
}

// Multi-token prediction (DeepSeek-AI 2024, section 2.2; names in deepseek.cc). The module of depth
// d predicts token i + d + 1 from the embedding e of token i + d and h, the output of the module
// before it, or of the model, after its last norm:
//
//   h' = norm(layer(projection [norm(e), norm(h)])),  logits = head(h')
ValueId mtp_module(BlockWriter& w, const LlamaForm& form, int64_t depth, ValueId h, ValueId ids,
                   ValueId table) {
  const ModelConfig& m = w.model();
  const int64_t F = m.hidden;
  const LayerKind kind = mtp_layer(m, depth);
  w.enter(kind);
  const ValueId e = w.rms_norm("embedding_norm", embed(w, form, ids, table), form.gains);
  const ValueId pair = w.pair("pair", e, w.rms_norm("hidden_norm", h, form.gains));
  const ValueId projection = w.matrix("projection.weight", {F, 2, F}, std_in(m));
  const ValueId x = w.product("projection", pair, projection, 2);
  return w.rms_norm("norm", layer(w, form, kind, x), form.gains);
}

}  // namespace

void llama_forward(Graph& graph, const BatchValues& batch, const ModelConfig& m,
                   const LlamaForm& form) {
  const int64_t V = m.padded_vocabulary(), F = m.hidden;
  ValueId table = kNone;
  {
    BlockWriter w(graph, batch, m, "embed");
    table = w.matrix("weight", {V, F}, std_in(m), 0);
    w.finish(w.dropout("drop", embed(w, form, batch.tokens, table), m.dropout_of_embeddings()));
  }
  for (const LayerKind& kind : layer_kinds(m)) {
    BlockWriter w(graph, batch, m, kind);
    w.finish(layer(w, form, kind, w.stream()));
  }
  BlockWriter w(graph, batch, m, "head");
  ValueId h = w.rms_norm("norm", w.stream(), form.gains);
  const ValueId head = m.tied_embeddings ? table : w.matrix("weight", {V, F}, std_in(m), 0);
  next_token_loss(w, h, head);
  for (int64_t d = 1; d <= m.mtp_depth; ++d) {
    h = mtp_module(w, form, d, h, batch.mtp_tokens.at(d - 1), table);
    next_token_loss(w, h, head, d);
  }
  w.finish_with_loss();
}

void llama_defaults(ModelConfig& m) {
  m.rotary_pct = 1;
  m.parallel_residual = false;
  m.init = Initializer::kNormal;
  m.output_init = Initializer::kScaledNormal;
}

void read_silu(const HfReader& in) {
  const auto activation = in.get<std::string>("hidden_act", "silu");
  if (activation != "silu" && activation != "swish")
    in.refuse("hidden_act", activation, "Tessera computes silu in this family");
}

void read_llama(const HfReader& in, ModelConfig& m, bool attention_bias) {
  m.vocabulary = in.size("vocab_size", m.vocabulary);
  m.hidden = in.size("hidden_size", m.hidden);
  m.layers = in.size("num_hidden_layers", m.layers);
  m.heads = in.size("num_attention_heads", m.heads);
  const bool grouped = m.kv_heads > 0 && !in.is_null("num_key_value_heads");
  m.kv_heads = in.size("num_key_value_heads", grouped ? m.kv_heads : m.heads);
  m.feed_forward = in.size("intermediate_size", m.feed_forward);
  m.context = in.size("max_position_embeddings", m.context);
  m.norm_epsilon = in.number("rms_norm_eps", m.norm_epsilon, 0, 1);
  m.tied_embeddings = in.get<bool>("tie_word_embeddings", m.tied_embeddings);
  m.attention_dropout = in.number("attention_dropout", 0, 0, 1);
  m.init_std = in.number("initializer_range", 0.02, 0, 100);
  const int64_t by_default = m.head_width;
  m.head_width = 0;
  if (by_default == 0 || in.find("head_dim")) {
    if (!in.find("head_dim")) check_heads(in, "num_attention_heads", m);
    const int64_t derived = std::max<int64_t>(1, m.hidden / m.heads);
    const int64_t d = in.size("head_dim", derived);
    if (d != derived || m.hidden % m.heads != 0) m.head_width = d;
  } else {
    m.head_width = by_default;
  }
  if (m.heads % m.kv_heads != 0)
    in.refuse("num_key_value_heads", std::to_string(m.kv_heads),
              fmt::format("it does not divide num_attention_heads = {}", m.heads));
  in.must_be("attention_bias", attention_bias,
             attention_bias ? "attention without biases in this family"
                            : "attention with biases in this family");
  in.must_be("mlp_bias", false, "an MLP with biases in this family");
}

void write_llama(const ModelConfig& m, Tree& out) {
  out.set("hidden_size", Tree(m.hidden));
  out.set("intermediate_size", Tree(inner_width(m)));
  out.set("num_hidden_layers", Tree(m.layers));
  out.set("num_attention_heads", Tree(m.heads));
  out.set("num_key_value_heads", Tree(key_value_heads(m)));
  out.set("max_position_embeddings", Tree(m.context));
  out.set("rms_norm_eps", Tree(m.norm_epsilon));
  out.set("head_dim", Tree(m.head_size()));
  out.set("attention_dropout", Tree(m.attention_dropout));
}

namespace {

// The names of one layer on both sides, and its sizes.
struct LayerNames {
  std::string ours, theirs;
  int64_t F, H, K, G, D, M;
};

void add_norms(const LayerNames& n, NormPlaces places, HfTensorList& list) {
  const auto add = [&](const char* ours, const char* theirs) {
    list.same(n.ours + ours + ".gain", n.theirs + theirs + ".weight", {n.F});
  };
  const bool after = places != NormPlaces::kBefore, before = places != NormPlaces::kAfter;
  if (before) add("norm1", "input_layernorm");
  if (before) add("norm2", after ? "pre_feedforward_layernorm" : "post_attention_layernorm");
  if (after) add("post_norm1", "post_attention_layernorm");
  if (after) add("post_norm2", "post_feedforward_layernorm");
}

// Queries, keys and values: weights, or biases without the last dimension.
void add_heads(const LayerNames& n, const std::string& ours, const char* suffix, bool fused,
               bool bias, HfTensorList& list) {
  const auto shape = [&](std::vector<int64_t> dims) {
    if (!bias) dims.push_back(n.F);
    return Shape(std::move(dims));
  };
  const std::string attention = n.theirs + "self_attn.";
  const Shape all = shape({n.K, n.G + 2, n.D});
  std::vector<int64_t> begin(static_cast<size_t>(all.rank()), 0);
  int64_t row = 0;
  const std::tuple<const char*, int64_t, int64_t> parts[] = {
      {"q_proj", 0, n.G}, {"k_proj", n.G, 1}, {"v_proj", n.G + 1, 1}};
  for (const auto& [name, first, count] : parts) {
    begin[1] = first;
    const int64_t rows = n.K * count * n.D;
    const Shape view = shape({n.K, count, n.D});
    if (fused)
      list.rows(ours, all, begin, attention + "qkv_proj" + suffix, shape({(n.H + 2 * n.K) * n.D}),
                row, view);
    else
      list.part(ours, all, begin, attention + name + suffix, shape({rows}), view);
    row += rows;
  }
}

void add_head_norms(const LayerNames& n, HeadNormForm form, HfTensorList& list) {
  if (form == HeadNormForm::kAbsent) return;
  const std::string ours = n.ours + "attn.", theirs = n.theirs + "self_attn.";
  const bool whole = form == HeadNormForm::kWhole;
  const Shape query = whole ? Shape{n.K, n.G, n.D} : Shape{n.D};
  const Shape key = whole ? Shape{n.K, n.D} : Shape{n.D};
  list.flat(ours + "q_norm.gain", theirs + "q_norm.weight", query, {query.elements()});
  list.flat(ours + "k_norm.gain", theirs + "k_norm.weight", key, {key.elements()});
}

// The tensors of experts are left to families that have them.
void add_layer(const ModelConfig& m, const LlamaForm& form, const FileLayer& layer,
               HfTensorList& list) {
  const int64_t K = key_value_heads(m);
  const LayerNames n = {layer.ours, layer.theirs, m.hidden,      m.heads,
                        K,          m.heads / K,  m.head_size(), inner_width(m, layer.like)};
  const std::string qkv = n.ours + "attn.qkv";
  add_norms(n, form.norms, list);
  if (!has_experts(m, layer.like))
    add_gated_mlp(m, n.ours + "mlp", n.theirs + "mlp", n.M, form.fused_files, list);
  if (form.latent) return;
  add_heads(n, qkv + ".weight", ".weight", form.fused_files, false, list);
  if (form.head_biases) add_heads(n, qkv + ".bias", ".bias", form.fused_files, true, list);
  add_head_norms(n, form.head_norm, list);
  list.flat(n.ours + "attn.out.weight", n.theirs + "self_attn.o_proj.weight", {n.F, n.H, n.D},
            {n.F, n.H * n.D});
  if (form.out_bias) list.same(n.ours + "attn.out.bias", n.theirs + "self_attn.o_proj.bias", {n.F});
  if (form.sinks) list.same(n.ours + "attn.sinks", n.theirs + "self_attn.sinks", {n.H});
}

// Adds the tensors of a module of multi-token prediction, except the tensors of its layer.
void add_mtp_module(const ModelConfig& m, const FileLayer& layer, HfTensorList& list) {
  const int64_t F = m.hidden;
  list.same(layer.ours + "embedding_norm.gain", layer.theirs + "enorm.weight", {F});
  list.same(layer.ours + "hidden_norm.gain", layer.theirs + "hnorm.weight", {F});
  list.flat(layer.ours + "projection.weight", layer.theirs + "eh_proj.weight", {F, 2, F},
            {F, 2 * F});
  list.same(layer.ours + "norm.gain", layer.theirs + "shared_head.norm.weight", {F});
}

}  // namespace

std::vector<FileLayer> file_layers(const ModelConfig& m) {
  std::vector<FileLayer> layers;
  for (int64_t i = 0; i < m.layers + m.mtp_depth; ++i)
    layers.push_back(
        {i < m.layers ? fmt::format("layer{}.", i) : fmt::format("mtp{}.", i - m.layers),
         fmt::format("model.layers.{}.", i), std::min(i, m.layers - 1)});
  return layers;
}

void add_gated_mlp(const ModelConfig& m, const std::string& ours, const std::string& theirs,
                   int64_t inner, bool fused, HfTensorList& list) {
  const int64_t F = m.hidden, M = inner;
  const std::string up = ours + ".up.weight";
  if (fused) {
    list.moved(up, theirs + ".gate_up_proj.weight", {2 * M, F}, {2, M, F}, {1, 0, 2});
  } else {
    list.part(up, {M, 2, F}, {0, 0, 0}, theirs + ".gate_proj.weight", {M, F}, {M, 1, F});
    list.part(up, {M, 2, F}, {0, 1, 0}, theirs + ".up_proj.weight", {M, F}, {M, 1, F});
  }
  list.same(ours + ".down.weight", theirs + ".down_proj.weight", {F, M});
}

void add_llama_tensors(const ModelConfig& m, const LlamaForm& form, HfTensorList& list) {
  list.same("embed.weight", "model.embed_tokens.weight", {m.padded_vocabulary(), m.hidden});
  const std::vector<FileLayer> layers = file_layers(m);
  for (const FileLayer& layer : layers) add_layer(m, form, layer, list);
  for (size_t i = m.layers; i < layers.size(); ++i) add_mtp_module(m, layers[i], list);
  list.same("head.norm.gain", "model.norm.weight", {m.hidden});
}

void add_expert_tensors(const ModelConfig& m, const ExpertNames& names, HfTensorList& list) {
  const int64_t E = m.experts, F = m.hidden;
  for (const FileLayer& layer : file_layers(m)) {
    if (!has_experts(m, layer.like)) continue;
    const int64_t M = inner_width(m, layer.like);
    const std::string ours = layer.ours + "mlp.";
    const std::string theirs = fmt::format("{}{}.", layer.theirs, names.module);
    list.same(ours + "router.weight", theirs + "gate.weight", {E, F});
    const auto expert = [&](int64_t j, const char* name) {
      return fmt::format("{}experts.{}.{}.weight", theirs, j, name);
    };
    const std::string up = ours + "experts.up.weight", down = ours + "experts.down.weight";
    for (int64_t j = 0; j < E; ++j) {
      list.part(up, {E, M, 2, F}, {j, 0, 0, 0}, expert(j, names.gate), {M, F}, {1, M, 1, F});
      list.part(up, {E, M, 2, F}, {j, 0, 1, 0}, expert(j, names.value), {M, F}, {1, M, 1, F});
    }
    for (int64_t j = 0; j < E; ++j)
      list.part(down, {E, F, M}, {j, 0, 0}, expert(j, names.down), {F, M}, {1, F, M});
  }
}

void check_softmax_router(const RouterConfig& router, const char* architecture) {
  if (router.score == RouterScore::kSoftmax && router.scale == 1 && router.groups == 1 &&
      !router.bias)
    return;
  throw Error(
      "{} requires model.router.score = softmax, model.router.scale = 1, model.router.groups = 1 "
      "and model.router.bias = false, but this model has score = {}, scale = {}, groups = {} and "
      "bias = {}. It cannot be exported.",
      architecture, name_of_entry(router.score), router.scale, router.groups, router.bias);
}

bool is_llama_buffer(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

}  // namespace tessera::model
