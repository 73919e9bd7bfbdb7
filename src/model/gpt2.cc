// GPT-2 (Radford et al. 2019): learned positions, norms before each sublayer, the head tied to the
// embedding.
//
//   ours                      Hugging Face: transformer.…, Conv1D is [in, out]
//   embed.weight [V,F]        wte.weight
//   embed.position.weight     wpe.weight [context,F]
//   layerI.norm1.gain, .bias  h.I.ln_1.weight, .bias
//   layerI.attn.qkv.weight    h.I.attn.c_attn.weight [F,3·H·D]: q, then k, then v
//   layerI.attn.out.weight    h.I.attn.c_proj.weight [H·D,F]
//   layerI.norm2.gain, .bias  h.I.ln_2.weight, .bias
//   layerI.mlp.up.weight      h.I.mlp.c_fc.weight [F,M]
//   layerI.mlp.down.weight    h.I.mlp.c_proj.weight [M,F]
//   head.norm.gain, .bias     ln_f.weight, .bias
//   head.weight [V,F]         lm_head.weight, without the prefix
#include "model/family.h"
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
  const ValueId attended = w.product("attn.out", self_attention(w, qkv), out, 2);
  const ValueId middle =
      m.dropout > 0 ? w.sum("residual1",
                            {x, w.dropout("attn.drop", w.sum("attn.out", {attended}, {out_bias}))})
                    : w.sum("residual1", {x, attended}, {out_bias});

  const ValueId up = w.linear("mlp.up", w.norm("norm2", middle), {inner}, std_in(m));
  const ValueId down = w.matrix("mlp.down.weight", {F, inner}, std_out(m), 1);
  const ValueId down_bias = w.vector("mlp.down.bias", {F}, 0);
  const ValueId fed = w.product("mlp.down", w.gelu("mlp.gelu", up), down);
  w.finish(m.dropout > 0
               ? w.sum("residual2",
                       {middle, w.dropout("mlp.drop", w.sum("mlp.down", {fed}, {down_bias}))})
               : w.sum("residual2", {middle, fed}, {down_bias}));
}

void forward(Graph& graph, const BatchValues& batch, const ModelConfig& m) {
  const int64_t V = m.padded_vocabulary(), F = m.hidden;
  ValueId table = kNone;
  {
    BlockWriter w(graph, batch, m, "embed");
    table = w.matrix("weight", {V, F}, std_in(m), 0);
    const ValueId positions = w.matrix("position.weight", {m.context, F}, std_in(m));
    const ValueId x = w.sum("sum", {w.embedding("tokens", batch.tokens, table),
                                    w.embedding("positions", batch.positions, positions)});
    w.finish(w.dropout("drop", x, m.dropout_of_embeddings()));
  }
  for (const LayerKind& kind : layer_kinds(m)) layer(graph, batch, m, kind);
  BlockWriter w(graph, batch, m, "head");
  const ValueId x = w.norm("norm", w.stream());
  if (!m.tied_embeddings) table = w.matrix("weight", {V, F}, std_in(m), 0);
  next_token_loss(w, x, table);
  w.finish_with_loss();
}

void released(ModelConfig& m) {
  m.gelu = GeluForm::kTanh;
  m.tied_embeddings = true;
  m.parallel_residual = false;
  m.rotary_pct = 0;
  m.init = Initializer::kNormal;
  m.output_init = Initializer::kScaledNormal;
}
void frontier(ModelConfig& m) {
  released(m);
  m.init_std = 0.006;
}

// Radford et al. 2019, sizes as released; and the three of Dash et al. 2023 on Frontier, from the
// launch scripts of sajal-vt/Megatron-DeepSpeed-ORNL, with vocabularies padded to 128 × their
// tensor ranks.
constexpr Preset kPresets[] = {
    {"gpt2", 12, 768, 12, 12, 3072, 50257, 128, 1024, released},
    {"gpt2-medium", 24, 1024, 16, 16, 4096, 50257, 128, 1024, released},
    {"gpt2-large", 36, 1280, 20, 20, 5120, 50257, 128, 1024, released},
    {"gpt2-xl", 48, 1600, 25, 25, 6400, 50257, 128, 1024, released},
    {"frontier-1.4b", 24, 2112, 24, 24, 8448, 50257, 128, 2048, frontier},
    {"frontier-22b", 48, 6144, 48, 48, 24576, 50257, 128, 2048, frontier},
    {"frontier-175b", 96, 12288, 96, 96, 49152, 50257, 512, 2048, frontier},
    {"frontier-1t", 128, 25600, 200, 200, 102400, 50257, 512, 2048, frontier},
};

void read_hf(const HfReader& in, ModelConfig& m) {
  m.vocabulary = in.size("vocab_size", 50257);
  // transformers also accepts the common names, which have precedence over the family's own.
  m.hidden = in.size("hidden_size", in.size("n_embd", 768));
  m.layers = in.size("num_hidden_layers", in.size("n_layer", 12));
  m.heads = in.size("num_attention_heads", in.size("n_head", 12));
  m.feed_forward = in.size("n_inner", 4 * m.hidden);
  m.context = in.size("max_position_embeddings", in.size("n_positions", 1024));
  m.gelu = gelu_of(in, "activation_function", "gelu_new");
  m.norm_epsilon = in.number("layer_norm_epsilon", 1e-5, 0, 1);
  m.tied_embeddings = in.get<bool>("tie_word_embeddings", true);
  m.parallel_residual = false;
  m.rotary_pct = 0;
  m.dropout = in.number("resid_pdrop", 0.1, 0, 1);
  m.attention_dropout = in.number("attn_pdrop", 0.1, 0, 1);
  const double embedded = in.number("embd_pdrop", 0.1, 0, 1);
  if (embedded != m.dropout) m.embedding_dropout = embedded;
  m.init = Initializer::kNormal;
  m.output_init = Initializer::kScaledNormal;
  m.init_std = in.number("initializer_range", 0.02, 0, 100);
  in.must_be("scale_attn_weights", true, "attention without its scale");
  in.must_be("scale_attn_by_inverse_layer_idx", false, "a scale of attention by layer");
  check_heads(in, "n_head", m);
}

Tree write_hf(const ModelConfig& m) {
  Tree out = hf_config_start("GPT2LMHeadModel", "gpt2");
  out.set("n_embd", Tree(m.hidden));
  out.set("n_layer", Tree(m.layers));
  out.set("n_head", Tree(m.heads));
  out.set("n_inner", inner_width(m) == 4 * m.hidden ? Tree() : Tree(m.feed_forward));
  out.set("n_positions", Tree(m.context));
  out.set("n_ctx", Tree(m.context));
  out.set("activation_function", Tree(std::string(m.gelu == GeluForm::kErf ? "gelu" : "gelu_new")));
  out.set("layer_norm_epsilon", Tree(m.norm_epsilon));
  out.set("resid_pdrop", Tree(m.dropout));
  out.set("embd_pdrop", Tree(m.dropout_of_embeddings()));
  out.set("attn_pdrop", Tree(m.attention_dropout));
  out.set("scale_attn_weights", Tree(true));
  return out;
}

void add_layer(const ModelConfig& m, int64_t layer, HfTensorList& list) {
  const int64_t F = m.hidden, H = m.heads, D = m.head_size(), M = inner_width(m, layer);
  const std::string ours = fmt::format("layer{}.", layer);
  const std::string theirs = fmt::format("transformer.h.{}.", layer);
  const std::string qkv = theirs + "attn.c_attn.", out = theirs + "attn.c_proj.";
  const std::string up = theirs + "mlp.c_fc.", down = theirs + "mlp.c_proj.";
  list.norm(ours + "norm1", theirs + "ln_1", F);
  list.moved(ours + "attn.qkv.weight", qkv + "weight", {F, 3 * F}, {F, 3, H, D}, {2, 1, 3, 0});
  list.moved(ours + "attn.qkv.bias", qkv + "bias", {3 * F}, {3, H, D}, {1, 0, 2});
  list.moved(ours + "attn.out.weight", out + "weight", {F, F}, {H, D, F}, {2, 0, 1});
  list.same(ours + "attn.out.bias", out + "bias", {F});
  list.norm(ours + "norm2", theirs + "ln_2", F);
  list.moved(ours + "mlp.up.weight", up + "weight", {F, M}, {F, M}, {1, 0});
  list.same(ours + "mlp.up.bias", up + "bias", {M});
  list.moved(ours + "mlp.down.weight", down + "weight", {M, F}, {M, F}, {1, 0});
  list.same(ours + "mlp.down.bias", down + "bias", {F});
}

void add_tensors(const ModelConfig& m, HfTensorList& list) {
  list.same("embed.weight", "transformer.wte.weight", {m.padded_vocabulary(), m.hidden});
  list.same("embed.position.weight", "transformer.wpe.weight", {m.context, m.hidden});
  for (int64_t i = 0; i < m.layers; ++i) add_layer(m, i, list);
  list.norm("head.norm", "transformer.ln_f", m.hidden);
}

bool is_buffer(std::string_view name) {
  return name.ends_with(".masked_bias") || name.ends_with(".attn.bias");
}

}  // namespace

const ModelFamily kGpt2Family = {.family = Family::kGpt2,
                                 .forward = forward,
                                 .defaults = nullptr,
                                 .presets = kPresets,
                                 .hf_type = "gpt2",
                                 .hf_prefix = "transformer.",
                                 .hf_head = "lm_head.weight",
                                 .hf_read = read_hf,
                                 .hf_write = write_hf,
                                 .hf_tensors = add_tensors,
                                 .hf_is_buffer = is_buffer};

}  // namespace tessera::model
