// T5 1.1 and mT5 (Raffel et al. 2020; Shazeer 2020; Xue et al. 2021): an encoder and a decoder with
// RMS norms before each sublayer, a gated feed-forward layer and no biases. Instead of position
// embeddings, a table of biases by relative distance is shared by all layers of a stack. Scores are
// not scaled; the smaller initial weights of the queries compensate for that.
//
//   ours                            Hugging Face: Linear is [out, in]
//   embed.weight [V,F]              shared.weight, of encoder and decoder
//   encoderI.norm1.gain             encoder.block.I.layer.0.layer_norm.weight
//   encoderI.attn.q.weight          encoder.block.I.layer.0.SelfAttention.q.weight [H·D,F]
//     [H,1,D,F]
//   encoderI.attn.kv.weight         encoder.block.I.layer.0.SelfAttention.k.weight, v.weight
//     [H,2,D,F]
//   encoderI.attn.out.weight        encoder.block.I.layer.0.SelfAttention.o.weight [F,H·D]
//     [F,H,D]
//   encoder.distances.weight [H,N]  encoder.block.0.layer.0.SelfAttention.relative_attention_bias
//                                   .weight [N,H]
//   encoderI.norm2.gain             encoder.block.I.layer.1.layer_norm.weight
//   encoderI.mlp.up.weight [M,2,F]  encoder.block.I.layer.1.DenseReluDense.wi_0.weight,
//   wi_1.weight:
//                                   a gate and a value for each inner unit
//   encoderI.mlp.down.weight [F,M]  encoder.block.I.layer.1.DenseReluDense.wo.weight
//   bridge.norm.gain                encoder.final_layer_norm.weight
//   decoderI.…                      decoder.block.I.…, in layer.2 what is in the encoder's layer.1
//   decoderI.norm3.gain             decoder.block.I.layer.1.layer_norm.weight
//   decoderI.cross.{q,kv,out}       decoder.block.I.layer.1.EncDecAttention.{q,k,v,o}.weight
//     .weight
//   head.norm.gain                  decoder.final_layer_norm.weight
//   head.weight [V,F]               lm_head.weight
#include <cmath>

#include "base/error.h"
#include "model/family.h"
#include "model/layer_parts.h"

namespace tessera::model {
namespace {

// Returns the standard deviation of initial weights with this number of inputs.
double std_of(const ModelConfig& m, int64_t inputs) {
  return m.init_std / std::sqrt(static_cast<double>(inputs));
}

// Attention to `keys`, which is x itself or the encoder output; both are normalized.
ValueId attend(BlockWriter& w, const std::string& name, ValueId x, ValueId keys,
               AttentionForm form) {
  const ModelConfig& m = w.model();
  const int64_t F = m.hidden, H = m.heads, D = m.head_size();
  const ValueId q = w.matrix(name + ".q.weight", {H, 1, D, F}, std_of(m, F * D), 0);
  const ValueId kv = w.matrix(name + ".kv.weight", {H, 2, D, F}, std_of(m, F), 0);
  const ValueId out = w.matrix(name + ".out.weight", {F, H, D}, std_of(m, H * D), 1);
  w.name_parts(kv, 1, {{"k", 1}, {"v", 1}});
  const ValueId queries = w.product(name + ".q", x, q);
  form.separate_kv = w.product(name + ".kv", keys, kv);
  return w.product(name + ".out", w.attention(name, queries, form), out, 2);
}

ValueId self_attend(Graph& graph, BlockWriter& w, ValueId x, AttentionForm form) {
  const ModelConfig& m = w.model();
  form.bias = w.matrix("distances.weight", {m.heads, m.relative_buckets}, std_of(m, m.hidden), 0);
  graph[form.bias].indexed_by = kOne;  // all layers of the stack have it in common
  const ValueId normed = w.rms_norm("norm1", x);
  return w.sum("residual1", {x, w.dropout("attn.drop", attend(w, "attn", normed, normed, form))});
}

ValueId feed_forward(BlockWriter& w, ValueId x) {
  const ModelConfig& m = w.model();
  const int64_t F = m.hidden, inner = m.feed_forward;
  const ValueId up = w.matrix("mlp.up.weight", {inner, 2, F}, std_of(m, F), 0);
  const ValueId down = w.matrix("mlp.down.weight", {F, inner}, std_of(m, inner), 1);
  w.name_parts(up, 1, {{"gate", 1}, {"up", 1}});
  const ValueId pairs = w.product("mlp.up", w.rms_norm("norm2", x), up);
  const GateForm form = m.gelu == GeluForm::kErf ? GateForm::kErf : GateForm::kTanh;
  const ValueId gated = w.dropout("mlp.gate.drop", w.gated_activation("mlp.gate", pairs, form));
  return w.sum("residual2", {x, w.dropout("mlp.drop", w.product("mlp.down", gated, down))});
}

void encoder(Graph& graph, const BatchValues& batch, const ModelConfig& m) {
  BlockWriter w(graph, batch, m, "encoder", m.encoder_layers);
  AttentionForm form;
  form.non_causal = true;
  form.padding = batch.source;
  const ValueId x = w.stream(HiddenStream::kSource);
  w.finish(feed_forward(w, self_attend(graph, w, x, form)), HiddenStream::kSource);
}

void decoder(Graph& graph, const BatchValues& batch, const ModelConfig& m) {
  BlockWriter w(graph, batch, m, "decoder", m.layers);
  const ValueId x = self_attend(graph, w, w.stream(), {});
  AttentionForm form;
  form.non_causal = true;
  form.padding = batch.source;
  const ValueId crossed = attend(w, "cross", w.rms_norm("norm3", x), graph.encoder_output, form);
  w.finish(feed_forward(w, w.sum("residual3", {x, w.dropout("cross.drop", crossed)})));
}

void forward(Graph& graph, const BatchValues& batch, const ModelConfig& m) {
  CHECK(m.encoder_layers > 0 && key_value_heads(m) == m.heads, "{} layers of an encoder, {} heads",
        m.encoder_layers, m.heads);
  const int64_t V = m.padded_vocabulary(), F = m.hidden;
  ValueId table = kNone;
  {
    BlockWriter w(graph, batch, m, "embed");
    table = w.matrix("weight", {V, F}, m.init_std, 0);
    w.finish(
        w.dropout("drop", w.embedding("tokens", batch.source, table), m.dropout_of_embeddings()),
        HiddenStream::kSource);
  }
  encoder(graph, batch, m);
  {
    BlockWriter w(graph, batch, m, "bridge");
    w.remember(w.dropout("memory.drop", w.rms_norm("norm", w.stream(HiddenStream::kSource))));
    const ValueId x = w.embedding("tokens", batch.tokens, table);
    w.finish(w.dropout("drop", x, m.dropout_of_embeddings()));
  }
  decoder(graph, batch, m);
  BlockWriter w(graph, batch, m, "head");
  ValueId x = w.dropout("drop", w.rms_norm("norm", w.stream()));
  if (m.tied_embeddings && m.scaled_head) x = w.scale("scale", x, std_of(m, F) / m.init_std);
  // As in T5X. transformers uses a standard deviation of 1, which starts with a loss of hundreds.
  if (!m.tied_embeddings) table = w.matrix("weight", {V, F}, std_of(m, F), 0);
  next_token_loss(w, x, table);
  w.finish_with_loss();
}

void defaults(ModelConfig& m) {
  m.rotary_pct = 0;
  m.parallel_residual = false;
  m.gelu = GeluForm::kTanh;
  m.norm_epsilon = 1e-6;
  m.init = m.output_init = Initializer::kNormal;
  m.init_std = 1;
}

void even(ModelConfig& m) {
  m.encoder_layers = m.layers;
  m.head_width = 64;
}

// Sizes of google/t5-v1_1-* and google/mt5-*; contexts are those of their pre-training.
constexpr Preset kPresets[] = {
    {"t5-v1.1-small", 8, 512, 6, 6, 1024, 32128, 1, 512, even},
    {"t5-v1.1-base", 12, 768, 12, 12, 2048, 32128, 1, 512, even},
    {"t5-v1.1-large", 24, 1024, 16, 16, 2816, 32128, 1, 512, even},
    {"t5-v1.1-xl", 24, 2048, 32, 32, 5120, 32128, 1, 512, even},
    {"t5-v1.1-xxl", 24, 4096, 64, 64, 10240, 32128, 1, 512, even},
    {"mt5-small", 8, 512, 6, 6, 1024, 250112, 1, 1024, even},
    {"mt5-base", 12, 768, 12, 12, 2048, 250112, 1, 1024, even},
    {"mt5-large", 24, 1024, 16, 16, 2816, 250112, 1, 1024, even},
    {"mt5-xl", 24, 2048, 32, 32, 5120, 250112, 1, 1024, even},
    {"mt5-xxl", 24, 4096, 64, 64, 10240, 250112, 1, 1024, even},
};

// config.json does not state a length, which T5 does not limit; a run may set a larger context.
constexpr int64_t kContext = 1024;

// The old name of the activation means "gelu_new"; dense_act_fn and is_gated_act, if given,
// override it.
GeluForm read_feed_forward(const HfReader& in, const char* otherwise) {
  const auto inner = in.get<std::string>("feed_forward_proj", otherwise);
  if (!inner.starts_with("gated-gelu"))
    in.refuse(
        "feed_forward_proj", inner,
        "Tessera computes gated-gelu in this family: T5 1.1 and mT5, not the original T5 (v1.0)");
  in.must_be("is_gated_act", true, "a feed-forward layer without a gate in this family");
  const std::string name = inner == "gated-gelu" ? "gelu_new" : inner.substr(6);
  return gelu_of(in, "dense_act_fn", name.c_str());
}

// Checks config.json and generation_config.json.
void check_start(const HfReader& in) {
  for (const char* key : {"decoder_start_token_id", "pad_token_id"})
    if (const auto id = in.get<int64_t>(key, 0); id != 0)
      in.refuse(
          key, std::to_string(id),
          "Tessera's decoder begins with id 0, which also pads encoder inputs, as in T5 and mT5");
}

void check_distances(const HfReader& in, const ModelConfig& m) {
  if (m.relative_buckets < 4)
    in.refuse("relative_attention_num_buckets", std::to_string(m.relative_buckets),
              "expected 4 or more");
  if (m.relative_distance <= m.relative_buckets / 2)
    in.refuse("relative_attention_max_distance", std::to_string(m.relative_distance),
              fmt::format("expected more than half of relative_attention_num_buckets = {}",
                          m.relative_buckets));
}

void read_hf(const HfReader& in, ModelConfig& m) {
  m.vocabulary = in.size("vocab_size", 32128);
  // transformers also accepts the common names, which have precedence over the family's own.
  m.hidden = in.size("hidden_size", in.size("d_model", 512));
  m.head_width = in.size("head_dim", in.size("d_kv", 64));
  m.feed_forward = in.size("d_ff", 2048);
  m.encoder_layers = in.size("num_hidden_layers", in.size("num_layers", 6));
  m.layers = in.size("num_decoder_layers", m.encoder_layers);
  m.heads = m.kv_heads = in.size("num_attention_heads", in.size("num_heads", 8));
  m.relative_buckets = in.size("relative_attention_num_buckets", 32);
  m.relative_distance = in.size("relative_attention_max_distance", 128);
  m.context = kContext;
  m.norm_epsilon = in.number("layer_norm_epsilon", 1e-6, 0, 1);
  m.dropout = m.attention_dropout = in.number("dropout_rate", 0.1, 0, 1);
  m.init_std = in.number("initializer_factor", 1, 0, 100);
  const bool multilingual = in.get<std::string>("model_type", "") == "mt5";
  // transformers 5 writes tie_word_embeddings = true for all models and states in the other key
  // whether the head is scaled. Models that are tied and not scaled have no head in their files.
  const bool tied = in.get<bool>("tie_word_embeddings", true);
  const bool scaled = in.get<bool>("scale_decoder_outputs", tied);
  if (!multilingual && !tied && scaled)
    in.refuse("scale_decoder_outputs", "true",
              "but tie_word_embeddings is false, which implies an unscaled head. Correct one");
  m.tied_embeddings = !multilingual && tied && scaled;
  m.gelu = read_feed_forward(in, multilingual ? "gated-gelu" : "relu");
  check_distances(in, m);
  in.must_be("is_encoder_decoder", true, "this family without its encoder or decoder");
  check_start(in);
}

Tree write_hf(const ModelConfig& m) {
  const bool scaled = m.tied_embeddings && m.scaled_head;  // transformers' MT5 is never scaled
  Tree out = m.preset.starts_with("mt5") && !scaled
                 ? hf_config_start("MT5ForConditionalGeneration", "mt5")
                 : hf_config_start("T5ForConditionalGeneration", "t5");
  out.set("d_model", Tree(m.hidden));
  out.set("d_kv", Tree(m.head_size()));
  out.set("d_ff", Tree(inner_width(m)));
  out.set("num_layers", Tree(m.encoder_layers));
  out.set("num_decoder_layers", Tree(m.layers));
  out.set("num_heads", Tree(m.heads));
  out.set("relative_attention_num_buckets", Tree(m.relative_buckets));
  out.set("relative_attention_max_distance", Tree(m.relative_distance));
  out.set("layer_norm_epsilon", Tree(m.norm_epsilon));
  out.set("dropout_rate", Tree(m.dropout));
  out.set("initializer_factor", Tree(m.init_std));
  out.set("feed_forward_proj", Tree(std::string("gated-gelu")));
  out.set("dense_act_fn", Tree(std::string(m.gelu == GeluForm::kErf ? "gelu" : "gelu_new")));
  out.set("is_encoder_decoder", Tree(true));
  if (m.tied_embeddings && !m.scaled_head) out.set("scale_decoder_outputs", Tree(false));
  out.set("decoder_start_token_id", Tree(int64_t{0}));
  out.set("pad_token_id", Tree(int64_t{0}));
  return out;
}

// The names of a stack, ours and theirs, and the sublayer index of the MLP.
struct Stack {
  std::string ours, theirs;
  int mlp;  // its index in a layer
};

void add_attention(const ModelConfig& m, const std::string& ours, const std::string& theirs,
                   HfTensorList& list) {
  const int64_t F = m.hidden, H = m.heads, D = m.head_size();
  const Shape kv{H, 2, D, F};
  list.flat(ours + ".q.weight", theirs + ".q.weight", {H, 1, D, F}, {H * D, F});
  list.part(ours + ".kv.weight", kv, {0, 0, 0, 0}, theirs + ".k.weight", {H * D, F}, {H, 1, D, F});
  list.part(ours + ".kv.weight", kv, {0, 1, 0, 0}, theirs + ".v.weight", {H * D, F}, {H, 1, D, F});
  list.flat(ours + ".out.weight", theirs + ".o.weight", {F, H, D}, {F, H * D});
}

void add_layer(const ModelConfig& m, const Stack& s, int64_t layer, HfTensorList& list) {
  const int64_t F = m.hidden, M = inner_width(m);
  const std::string ours = fmt::format("{}{}.", s.ours, layer);
  const auto theirs = [&](int part) {
    return fmt::format("{}.block.{}.layer.{}.", s.theirs, layer, part);
  };
  const auto norm = [&](const char* name, int part) {
    list.same(ours + name + ".gain", theirs(part) + "layer_norm.weight", {F});
  };
  norm("norm1", 0);
  add_attention(m, ours + "attn", theirs(0) + "SelfAttention", list);
  if (s.mlp == 2) {
    norm("norm3", 1);
    add_attention(m, ours + "cross", theirs(1) + "EncDecAttention", list);
  }
  norm("norm2", s.mlp);
  const std::string up = ours + "mlp.up.weight", inner = theirs(s.mlp) + "DenseReluDense.";
  list.part(up, {M, 2, F}, {0, 0, 0}, inner + "wi_0.weight", {M, F}, {M, 1, F});
  list.part(up, {M, 2, F}, {0, 1, 0}, inner + "wi_1.weight", {M, F}, {M, 1, F});
  list.same(ours + "mlp.down.weight", inner + "wo.weight", {F, M});
}

void add_tensors(const ModelConfig& m, HfTensorList& list) {
  list.same("embed.weight", "shared.weight", {m.padded_vocabulary(), m.hidden});
  const std::pair<Stack, int64_t> stacks[] = {{{"encoder", "encoder", 1}, m.encoder_layers},
                                              {{"decoder", "decoder", 2}, m.layers}};
  for (const auto& [stack, layers] : stacks) {
    list.moved(stack.ours + ".distances.weight",
               stack.theirs + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight",
               {m.relative_buckets, m.heads}, {m.relative_buckets, m.heads}, {1, 0});
    for (int64_t i = 0; i < layers; ++i) add_layer(m, stack, i, list);
  }
  list.same("bridge.norm.gain", "encoder.final_layer_norm.weight", {m.hidden});
  list.same("head.norm.gain", "decoder.final_layer_norm.weight", {m.hidden});
}

// A table that no version of T5 uses.
bool is_buffer(std::string_view name) {
  return name == "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";
}

}  // namespace

const ModelFamily kT5Family = {.family = Family::kT5,
                               .forward = forward,
                               .defaults = defaults,
                               .presets = kPresets,
                               .has_encoder = true,
                               .hf_type = "t5",
                               .hf_type_alias = "mt5",
                               .hf_prefix = "",
                               .hf_head = "lm_head.weight",
                               .hf_ties_missing_head = true,
                               .hf_copies = "coder.embed_tokens.weight",
                               .hf_read = read_hf,
                               .hf_write = write_hf,
                               .hf_tensors = add_tensors,
                               .hf_is_buffer = is_buffer,
                               .hf_check_start = check_start,
                               .hf_tokenizer_file = "spiece.model",
                               .hf_tokenizer = "T5Tokenizer"};

}  // namespace tessera::model
