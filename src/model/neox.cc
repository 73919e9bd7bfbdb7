// GPT-NeoX (Black et al. 2022) and Pythia: RoPE on a part of each head, attention and MLP in
// parallel on one residual stream, untied embedding and head.
//
//   ours                      Hugging Face: gpt_neox.…, Linear is [out, in]
//   embed.weight [V,F]        embed_in.weight
//   layerI.norm1.gain, .bias  layers.I.input_layernorm.weight, .bias
//   layerI.attn.qkv.weight    layers.I.attention.query_key_value.weight [H·3·D,F]: the same order
//     [H,3,D,F]
//   layerI.attn.out.weight    layers.I.attention.dense.weight [F,H·D]
//   layerI.norm2.gain, .bias  layers.I.post_attention_layernorm.weight, .bias
//   layerI.mlp.up.weight      layers.I.mlp.dense_h_to_4h.weight [M,F]
//   layerI.mlp.down.weight    layers.I.mlp.dense_4h_to_h.weight [F,M]
//   head.norm.gain, .bias     final_layer_norm.weight, .bias
//   head.weight [V,F]         embed_out.weight, without the prefix
#include "model/family.h"
#include "model/hf_attention.h"
#include "model/layer_parts.h"

namespace tessera::model {
namespace {

void layer(Graph& graph, const BatchValues& batch, const ModelConfig& m, const LayerKind& kind) {
  const int64_t F = m.hidden, H = m.heads, D = m.head_size(), inner = kind.feed_forward;
  BlockWriter w(graph, batch, m, kind);
  const ValueId x = w.stream();

  const ValueId qkv = w.linear("attn.qkv", w.norm("norm1", x), {H, 3, D}, std_in(m));
  const ValueId out = w.matrix("attn.out.weight", {F, H, D}, std_out(m), 1);
  const ValueId out_bias = w.vector("attn.out.bias", {F}, 0);
  ValueId attended = w.product("attn.out", self_attention(w, w.rotary(qkv)), out, 2);

  // Parallel residual: the MLP also reads x, and one sum adds both; otherwise it reads x +
  // attention.
  if (m.dropout > 0) attended = w.dropout("attn.drop", w.sum("attn.out", {attended}, {out_bias}));
  const std::vector<ValueId> bias1 =
      m.dropout > 0 ? std::vector<ValueId>{} : std::vector<ValueId>{out_bias};
  const ValueId middle = m.parallel_residual ? x : w.sum("residual1", {x, attended}, bias1);
  const ValueId up = w.linear("mlp.up", w.norm("norm2", middle), {inner}, std_in(m));
  const ValueId down = w.matrix("mlp.down.weight", {F, inner}, std_out(m), 1);
  const ValueId down_bias = w.vector("mlp.down.bias", {F}, 0);
  ValueId fed = w.product("mlp.down", w.gelu("mlp.gelu", up), down);
  if (m.dropout > 0) fed = w.dropout("mlp.drop", w.sum("mlp.down", {fed}, {down_bias}));

  std::vector<ValueId> terms = {middle}, biases;
  if (m.parallel_residual) {
    terms.push_back(attended);
    biases = bias1;
  }
  terms.push_back(fed);
  if (m.dropout == 0) biases.push_back(down_bias);
  w.finish(w.sum("residual2", terms, biases));
}

void forward(Graph& graph, const BatchValues& batch, const ModelConfig& m) {
  const int64_t V = m.padded_vocabulary(), F = m.hidden;
  ValueId table = kNone;
  {
    BlockWriter w(graph, batch, m, "embed");
    table = w.matrix("weight", {V, F}, std_in(m), 0);
    const ValueId x = w.embedding("tokens", batch.tokens, table);
    w.finish(w.dropout("drop", x, m.dropout_of_embeddings()));
  }
  for (const LayerKind& kind : layer_kinds(m)) layer(graph, batch, m, kind);
  BlockWriter w(graph, batch, m, "head");
  const ValueId x = w.norm("norm", w.stream());
  if (!m.tied_embeddings) table = w.matrix("weight", {V, F}, std_in(m), 0);
  next_token_loss(w, x, table);
  w.finish_with_loss();
}

void normal(ModelConfig& m) {
  m.init = Initializer::kNormal;
  m.output_init = Initializer::kScaledNormal;
}
void tanh_gelu(ModelConfig& m) { m.gelu = GeluForm::kTanh; }

// EleutherAI/pythia models/*/*.yml and gpt-neox configs/20B.yml; vocabularies are padded to
// 128 × the model-parallel size they were trained with. The activation is what the published
// checkpoints run with in transformers: erf for Pythia, tanh for 20B. 6.9B and 12B were trained
// with the plain initialization.
constexpr Preset kPresets[] = {
    {"pythia-14m", 6, 128, 4, 4, 512, 50277, 128, 2048},
    {"pythia-31m", 6, 256, 8, 8, 1024, 50277, 128, 2048},
    {"pythia-70m", 6, 512, 8, 8, 2048, 50277, 128, 2048},
    {"pythia-160m", 12, 768, 12, 12, 3072, 50277, 128, 2048},
    {"pythia-410m", 24, 1024, 16, 16, 4096, 50277, 128, 2048},
    {"pythia-1b", 16, 2048, 8, 8, 8192, 50277, 128, 2048},
    {"pythia-1.4b", 24, 2048, 16, 16, 8192, 50277, 128, 2048},
    {"pythia-2.8b", 32, 2560, 32, 32, 10240, 50277, 128, 2048},
    {"pythia-6.9b", 32, 4096, 32, 32, 16384, 50277, 256, 2048, normal},
    {"pythia-12b", 36, 5120, 40, 40, 20480, 50277, 512, 2048, normal},
    {"gpt-neox-20b", 44, 6144, 64, 64, 24576, 50277, 256, 2048, tanh_gelu},
};

void read_hf(const HfReader& in, ModelConfig& m) {
  m.vocabulary = in.size("vocab_size", 50432);
  m.hidden = in.size("hidden_size", 6144);
  m.layers = in.size("num_hidden_layers", 44);
  m.heads = in.size("num_attention_heads", 64);
  m.feed_forward = in.size("intermediate_size", 24576);
  m.context = in.size("max_position_embeddings", 2048);
  m.gelu = gelu_of(in, "hidden_act", "gelu");
  m.norm_epsilon = in.number("layer_norm_eps", 1e-5, 0, 1);
  m.parallel_residual = in.get<bool>("use_parallel_residual", true);
  m.tied_embeddings = in.get<bool>("tie_word_embeddings", false);
  m.dropout = in.number("hidden_dropout", 0, 0, 1);
  m.attention_dropout = in.number("attention_dropout", 0, 0, 1);
  m.init_std = in.number("initializer_range", 0.02, 0, 100);
  in.must_be("attention_bias", true, "attention without biases");
  check_heads(in, "num_attention_heads", m);
  check_head_dim(in, m);
  read_rotary(in, {"rotary_emb_base", "rotary_pct"}, RopeScalingSupport::kUnscaled, m);
}

Tree write_hf(const ModelConfig& m) {
  Tree out = hf_config_start("GPTNeoXForCausalLM", "gpt_neox");
  out.set("hidden_size", Tree(m.hidden));
  out.set("num_hidden_layers", Tree(m.layers));
  out.set("num_attention_heads", Tree(m.heads));
  out.set("intermediate_size", Tree(inner_width(m)));
  out.set("max_position_embeddings", Tree(m.context));
  out.set("hidden_act", Tree(std::string(m.gelu == GeluForm::kErf ? "gelu" : "gelu_fast")));
  out.set("layer_norm_eps", Tree(m.norm_epsilon));
  out.set("rotary_pct", Tree(m.rotary_pct));
  out.set("rotary_emb_base", Tree(m.rope_theta));
  out.set("use_parallel_residual", Tree(m.parallel_residual));
  out.set("attention_bias", Tree(true));
  out.set("hidden_dropout", Tree(m.dropout));
  out.set("attention_dropout", Tree(m.attention_dropout));
  return out;
}

void add_layer(const ModelConfig& m, int64_t layer, HfTensorList& list) {
  const int64_t F = m.hidden, H = m.heads, D = m.head_size(), M = inner_width(m, layer);
  const std::string ours = fmt::format("layer{}.", layer);
  const std::string theirs = fmt::format("gpt_neox.layers.{}.", layer);
  const std::string qkv = theirs + "attention.query_key_value.";
  const std::string out = theirs + "attention.dense.";
  const std::string up = theirs + "mlp.dense_h_to_4h.", down = theirs + "mlp.dense_4h_to_h.";
  list.norm(ours + "norm1", theirs + "input_layernorm", F);
  list.flat(ours + "attn.qkv.weight", qkv + "weight", {H, 3, D, F}, {3 * F, F});
  list.flat(ours + "attn.qkv.bias", qkv + "bias", {H, 3, D}, {3 * F});
  list.flat(ours + "attn.out.weight", out + "weight", {F, H, D}, {F, F});
  list.same(ours + "attn.out.bias", out + "bias", {F});
  list.norm(ours + "norm2", theirs + "post_attention_layernorm", F);
  list.same(ours + "mlp.up.weight", up + "weight", {M, F});
  list.same(ours + "mlp.up.bias", up + "bias", {M});
  list.same(ours + "mlp.down.weight", down + "weight", {F, M});
  list.same(ours + "mlp.down.bias", down + "bias", {F});
}

void add_tensors(const ModelConfig& m, HfTensorList& list) {
  list.same("embed.weight", "gpt_neox.embed_in.weight", {m.padded_vocabulary(), m.hidden});
  for (int64_t i = 0; i < m.layers; ++i) add_layer(m, i, list);
  list.norm("head.norm", "gpt_neox.final_layer_norm", m.hidden);
}

bool is_buffer(std::string_view name) {
  return name.ends_with(".masked_bias") || name.ends_with(".rotary_emb.inv_freq") ||
         name.ends_with(".attention.bias");
}

}  // namespace

const ModelFamily kNeoxFamily = {.family = Family::kNeox,
                                 .forward = forward,
                                 .defaults = nullptr,
                                 .presets = kPresets,
                                 .has_rope = true,
                                 .hf_type = "gpt_neox",
                                 .hf_prefix = "gpt_neox.",
                                 .hf_head = "embed_out.weight",
                                 .hf_read = read_hf,
                                 .hf_write = write_hf,
                                 .hf_tensors = add_tensors,
                                 .hf_is_buffer = is_buffer};

}  // namespace tessera::model
