// LLaMA (Touvron et al. 2023; Dubey et al. 2024) and models with its architecture, such as HLAT:
// RMS norms, a gated feed-forward layer, RoPE over the whole head, grouped-query attention, no
// biases.
//
//   ours                        Hugging Face: model.…, Linear is [out, in]
//   embed.weight [V,F]          embed_tokens.weight
//   layerI.norm1.gain           layers.I.input_layernorm.weight
//   layerI.attn.qkv.weight      layers.I.self_attn.q_proj.weight [K·G·D,F], k_proj [K·D,F], v_proj:
//     [K,G+2,D,F]               a group of G queries, their key, their value
//   layerI.attn.out.weight      layers.I.self_attn.o_proj.weight [F,H·D]
//   layerI.norm2.gain           layers.I.post_attention_layernorm.weight
//   layerI.mlp.up.weight        layers.I.mlp.gate_proj.weight [M,F], up_proj.weight: a gate and a
//     [M,2,F]                   value for each inner unit
//   layerI.mlp.down.weight      layers.I.mlp.down_proj.weight [F,M]
//   head.norm.gain              norm.weight
//   head.weight [V,F]           lm_head.weight, without the prefix
#include "model/llama.h"

#include "base/error.h"

namespace tessera::model {
namespace {

void layer(Graph& graph, const BatchValues& batch, const ModelConfig& m, const LayerKind& kind,
           bool head_biases) {
  const int64_t F = m.hidden, H = m.heads, D = m.head_size(), inner = kind.feed_forward;
  CHECK(H % key_value_heads(m) == 0, "{} heads in {} groups", H, key_value_heads(m));
  BlockWriter w(graph, batch, m, kind);
  const ValueId x = w.stream();

  const ValueId qkv = w.grouped_heads("attn.qkv", w.rms_norm("norm1", x), head_biases);
  const ValueId turned = kind.rotary ? w.rotary(qkv) : qkv;
  const ValueId out = w.matrix("attn.out.weight", {F, H, D}, w.std_out(), 1);
  const ValueId attended = w.product("attn.out", w.attention(turned), out, 2);
  const ValueId middle = w.sum("residual1", {x, w.dropout("attn.drop", attended)});

  const ValueId up = w.matrix("mlp.up.weight", {inner, 2, F}, w.std_in(), 0);
  w.name_parts(up, 1, {{"gate", 1}, {"up", 1}});
  const ValueId pairs = w.product("mlp.up", w.rms_norm("norm2", middle), up);
  const ValueId down = w.matrix("mlp.down.weight", {F, inner}, w.std_out(), 1);
  const ValueId fed =
      w.product("mlp.down", w.gated_activation("mlp.gate", pairs, GateForm::kSilu), down);
  w.finish(w.sum("residual2", {middle, w.dropout("mlp.drop", fed)}));
}

}  // namespace

void llama_forward(Graph& graph, const BatchValues& batch, const ModelConfig& m, bool head_biases) {
  const int64_t V = m.padded_vocabulary(), F = m.hidden;
  ValueId table = kNone;
  {
    BlockWriter w(graph, batch, m, "embed");
    table = w.matrix("weight", {V, F}, w.std_in(), 0);
    w.finish(w.embedding_dropout("drop", w.embedding("tokens", batch.tokens, table)));
  }
  for (const LayerKind& kind : layer_kinds(m)) layer(graph, batch, m, kind, head_biases);
  BlockWriter w(graph, batch, m, "head");
  const ValueId x = w.rms_norm("norm", w.stream());
  if (!m.tied_embeddings) table = w.matrix("weight", {V, F}, w.std_in(), 0);
  w.linear_cross_entropy(x, table);
  w.finish_with_loss();
}

void llama_defaults(ModelConfig& m) {
  m.rotary_pct = 1;
  m.parallel_residual = false;
  m.init = Initialiser::kNormal;
  m.output_init = Initialiser::kScaledNormal;
}

void read_llama(const HfReader& in, ModelConfig& m) {
  m.vocabulary = in.size("vocab_size", m.vocabulary);
  m.hidden = in.size("hidden_size", m.hidden);
  m.layers = in.size("num_hidden_layers", m.layers);
  m.heads = in.size("num_attention_heads", m.heads);
  const bool grouped = m.kv_heads > 0 && !in.is_null("num_key_value_heads");
  m.kv_heads = in.size("num_key_value_heads", grouped ? m.kv_heads : m.heads);
  m.feed_forward = in.size("intermediate_size", m.feed_forward);
  m.context = in.size("max_position_embeddings", m.context);
  m.norm_epsilon = in.number("rms_norm_eps", 1e-6, 0, 1);
  m.tied_embeddings = in.get<bool>("tie_word_embeddings", false);
  m.attention_dropout = in.number("attention_dropout", 0, 0, 1);
  m.init_std = in.number("initializer_range", 0.02, 0, 100);
  const auto activation = in.get<std::string>("hidden_act", "silu");
  if (activation != "silu" && activation != "swish")
    in.refuse("hidden_act", activation, "Tessera computes silu in this family");
  check_heads(in, "num_attention_heads", m);
  if (const int64_t d = in.size("head_dim", m.head_size()); d != m.head_size()) m.head_width = d;
  if (m.heads % m.kv_heads != 0)
    in.refuse("num_key_value_heads", std::to_string(m.kv_heads),
              fmt::format("it does not divide num_attention_heads = {}", m.heads));
}

void write_llama(const ModelConfig& m, Tree& out) {
  out.set("hidden_size", Tree(m.hidden));
  out.set("intermediate_size", Tree(inner_width(m)));
  out.set("num_hidden_layers", Tree(m.layers));
  out.set("num_attention_heads", Tree(m.heads));
  out.set("num_key_value_heads", Tree(key_value_heads(m)));
  out.set("hidden_act", Tree(std::string("silu")));
  out.set("max_position_embeddings", Tree(m.context));
  out.set("rms_norm_eps", Tree(m.norm_epsilon));
  out.set("rope_theta", Tree(m.rope_theta));
  out.set("head_dim", Tree(m.head_size()));
  out.set("attention_dropout", Tree(m.attention_dropout));
}

namespace {

void llama3(ModelConfig& m) { m.rope_theta = 500'000; }
void llama31(ModelConfig& m) {
  m.rope_theta = 500'000;
  m.rope_scaling = {8, 1, 4, 8192};
}
void llama32(ModelConfig& m) {
  m.rope_theta = 500'000;
  m.rope_scaling = {32, 1, 4, 8192};
  m.tied_embeddings = true;
}
void hlat(ModelConfig& m) { m.init_std = 0.021; }

// Sizes as released by Meta. HLAT's are from awslabs/HLAT, which was trained with sequences of
// 4,096.
constexpr Preset kPresets[] = {
    {"llama2-7b", 32, 4096, 32, 32, 11008, 32000, 128, 4096},
    {"llama2-13b", 40, 5120, 40, 40, 13824, 32000, 128, 4096},
    {"llama2-70b", 80, 8192, 64, 8, 28672, 32000, 128, 4096},
    {"llama3-8b", 32, 4096, 32, 8, 14336, 128256, 128, 8192, llama3},
    {"llama3-70b", 80, 8192, 64, 8, 28672, 128256, 128, 8192, llama3},
    {"llama3.1-8b", 32, 4096, 32, 8, 14336, 128256, 128, 131072, llama31},
    {"llama3.1-70b", 80, 8192, 64, 8, 28672, 128256, 128, 131072, llama31},
    {"llama3.2-1b", 16, 2048, 32, 8, 8192, 128256, 128, 131072, llama32},
    {"llama3.2-3b", 28, 3072, 24, 8, 8192, 128256, 128, 131072, llama32},
    {"hlat-7b", 32, 4096, 32, 32, 11008, 32000, 128, 4096, hlat},
    {"hlat-70b", 80, 8192, 64, 8, 28672, 32000, 128, 4096, hlat},
};

void read_hf(const HfReader& in, ModelConfig& m) {
  m.vocabulary = 32000;
  m.hidden = 4096;
  m.layers = m.heads = 32;
  m.feed_forward = 11008;
  m.context = 2048;
  read_llama(in, m);
  in.must_be("attention_bias", false, "attention with biases in this family");
  in.must_be("mlp_bias", false, "an MLP with biases in this family");
  if (in.find("sliding_window"))
    in.refuse("sliding_window", "given", "LLaMA attends to the whole text. Remove the key");
  read_rotary(in, {}, Ropes::kUnscaledAndLlama3, m);
}

Tree write_scale(const RopeScaling& s) {
  if (s.factor == 1) return {};
  Tree out = Tree::object();
  out.set("rope_type", Tree(std::string("llama3")));
  out.set("factor", Tree(s.factor));
  out.set("low_freq_factor", Tree(s.low_freq_factor));
  out.set("high_freq_factor", Tree(s.high_freq_factor));
  out.set("original_max_position_embeddings", Tree(s.original_max_position_embeddings));
  return out;
}

Tree write_hf(const ModelConfig& m) {
  Tree out = hf_config_start("LlamaForCausalLM", "llama");
  write_llama(m, out);
  out.set("rope_scaling", write_scale(m.rope_scaling));
  out.set("attention_bias", Tree(false));
  out.set("mlp_bias", Tree(false));
  return out;
}

void add_layer(const ModelConfig& m, int64_t layer, HfTensorList& list) {
  const int64_t F = m.hidden, H = m.heads, D = m.head_size(), M = inner_width(m, layer);
  const int64_t K = key_value_heads(m), G = H / K;
  const std::string ours = fmt::format("layer{}.", layer);
  const std::string theirs = fmt::format("model.layers.{}.", layer);
  const std::string qkv = ours + "attn.qkv.weight", up = ours + "mlp.up.weight";
  const std::string attention = theirs + "self_attn.", mlp = theirs + "mlp.";
  const Shape all{K, G + 2, D, F}, pairs{M, 2, F};
  list.same(ours + "norm1.gain", theirs + "input_layernorm.weight", {F});
  list.part(qkv, all, {0, 0, 0, 0}, attention + "q_proj.weight", {H * D, F}, {K, G, D, F});
  list.part(qkv, all, {0, G, 0, 0}, attention + "k_proj.weight", {K * D, F}, {K, 1, D, F});
  list.part(qkv, all, {0, G + 1, 0, 0}, attention + "v_proj.weight", {K * D, F}, {K, 1, D, F});
  list.flat(ours + "attn.out.weight", attention + "o_proj.weight", {F, H, D}, {F, H * D});
  list.same(ours + "norm2.gain", theirs + "post_attention_layernorm.weight", {F});
  list.part(up, pairs, {0, 0, 0}, mlp + "gate_proj.weight", {M, F}, {M, 1, F});
  list.part(up, pairs, {0, 1, 0}, mlp + "up_proj.weight", {M, F}, {M, 1, F});
  list.same(ours + "mlp.down.weight", mlp + "down_proj.weight", {F, M});
}

}  // namespace

void add_llama_tensors(const ModelConfig& m, HfTensorList& list) {
  list.same("embed.weight", "model.embed_tokens.weight", {m.padded_vocabulary(), m.hidden});
  for (int64_t i = 0; i < m.layers; ++i) add_layer(m, i, list);
  list.same("head.norm.gain", "model.norm.weight", {m.hidden});
}

bool is_llama_buffer(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

namespace {

void forward(Graph& graph, const BatchValues& batch, const ModelConfig& m) {
  llama_forward(graph, batch, m, false);
}

}  // namespace

const FamilyRule kLlamaFamily = {.family = Family::kLlama,
                                 .forward = forward,
                                 .defaults = llama_defaults,
                                 .presets = kPresets,
                                 .turns = true,
                                 .groups_heads = true,
                                 .hf_type = "llama",
                                 .hf_prefix = "model.",
                                 .hf_head = "lm_head.weight",
                                 .hf_read = read_hf,
                                 .hf_write = write_hf,
                                 .hf_tensors = add_llama_tensors,
                                 .hf_is_buffer = is_llama_buffer};

}  // namespace tessera::model
