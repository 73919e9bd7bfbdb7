// Gemma 2 (Riviere et al. 2024) and the text part of Gemma 3 (Kamath et al. 2025): norms with gains
// around 1 before and after attention and MLP, a GELU gate, embeddings times the root of the width,
// windows in most layers. Gemma 2 caps attention scores and logits; Gemma 3 has norms of queries
// and keys, and two rotary embeddings.
//
// A soft cap is c tanh(x / c), which bounds a logit by c and keeps its gradient. Gains are stored
// as their difference from 1, as in published files, so weight decay, if it applies to gains, pulls
// them toward 1. Layers with a window use a rotary embedding with a short base, since their
// distances are small; layers without one use a long base, scaled linearly for long contexts in the
// larger models.
#include "model/hf_attention.h"
#include "model/llama_like.h"

namespace tessera::model {
namespace {

constexpr LlamaForm kForm2 = {.norms = NormPlaces::kBoth,
                              .gains = GainForm::kLessOne,
                              .gelu_gate = true,
                              .scaled_embedding = true};
constexpr LlamaForm kForm3 = {.norms = NormPlaces::kBoth,
                              .gains = GainForm::kLessOne,
                              .head_norm = HeadNormForm::kPerHead,
                              .gelu_gate = true,
                              .scaled_embedding = true};

constexpr double kAttentionCap = 50, kLogitCap = 30;            // Gemma 2
constexpr double kGlobalBase = 1'000'000, kLocalBase = 10'000;  // Gemma 3
constexpr int64_t kWindow = 4096, kPeriod2 = 2, kPeriod3 = 6;

void common_defaults(ModelConfig& m) {
  llama_defaults(m);
  m.norm_epsilon = 1e-6;
  m.tied_embeddings = true;
  m.gelu = GeluForm::kTanh;
}

void defaults2(ModelConfig& m) {
  common_defaults(m);
  m.attention_soft_cap = kAttentionCap;
  m.logit_soft_cap = kLogitCap;
}

void defaults3(ModelConfig& m) {
  common_defaults(m);
  m.rope_theta = kGlobalBase;
}

// The last of every `period` layers sees all keys, the others a window.
void set_windows(ModelConfig& m, int64_t window, int64_t period) {
  m.window = window;
  m.window_layers.clear();
  for (int64_t l = 0; l < m.layers; ++l)
    if ((l + 1) % period != 0) m.window_layers.push_back(l);
}

void gemma2(ModelConfig& m) {
  m.head_width = 256;
  set_windows(m, kWindow, kPeriod2);
}
void gemma2_27b(ModelConfig& m) {
  gemma2(m);
  m.head_width = 128;
  m.attention_scalar = 144;
}

// Sizes of the config.json files of google/gemma-2-*.
constexpr Preset kPresets2[] = {
    {"gemma2-2b", 26, 2304, 8, 4, 9216, 256000, 1, 8192, gemma2},
    {"gemma2-9b", 42, 3584, 16, 8, 14336, 256000, 1, 8192, gemma2},
    {"gemma2-27b", 46, 4608, 32, 16, 36864, 256000, 1, 8192, gemma2_27b},
};

void gemma3_1b(ModelConfig& m) {
  m.head_width = 256;
  m.window_rope_theta = kLocalBase;
  set_windows(m, 512, kPeriod3);
}
void gemma3(ModelConfig& m) {
  gemma3_1b(m);
  m.window = 1024;
  m.rope_scaling.rope_type = RopeType::kLinear;
  m.rope_scaling.factor = 8;
}
void gemma3_27b(ModelConfig& m) {
  gemma3(m);
  m.head_width = 128;
  m.attention_scalar = 168;
}

// Sizes of the text parts of the config.json files of google/gemma-3-*.
constexpr Preset kPresets3[] = {
    {"gemma3-1b", 26, 1152, 4, 1, 6912, 262144, 1, 32768, gemma3_1b},
    {"gemma3-4b", 34, 2560, 8, 4, 10240, 262208, 1, 131072, gemma3},
    {"gemma3-12b", 48, 3840, 16, 8, 15360, 262208, 1, 131072, gemma3},
    {"gemma3-27b", 62, 5376, 32, 16, 21504, 262208, 1, 131072, gemma3_27b},
};

double read_cap(const HfReader& in, const char* key, double otherwise) {
  return in.is_null(key) || (otherwise == 0 && !in.find(key))
             ? 0
             : in.number(key, otherwise, 1e-3, 1e9);
}

void read_common(const HfReader& in, int64_t period, ModelConfig& m) {
  m.hidden = 2304;
  m.layers = 26;
  m.heads = 8;
  m.kv_heads = 4;
  m.head_width = 256;
  m.feed_forward = 9216;
  read_llama(in, m);
  m.gelu = gelu_of(in, "hidden_activation", "gelu_pytorch_tanh");
  in.must_be("use_bidirectional_attention", false, "attention to later tokens in this family");
  const double scalar = in.number("query_pre_attn_scalar", 256, 1e-6, 1e9);
  m.attention_scalar = scalar == static_cast<double>(m.head_size()) ? 0 : scalar;
  const int64_t window = in.is_null("sliding_window") ? 0 : in.size("sliding_window", kWindow);
  read_windows(
      in, window, [&](int64_t l) { return (l + 1) % period != 0; }, m);
}

void read_gemma2(const HfReader& in, ModelConfig& m) {
  m.vocabulary = 256000;
  m.context = 8192;
  read_common(in, kPeriod2, m);
  m.attention_soft_cap = read_cap(in, "attn_logit_softcapping", kAttentionCap);
  m.logit_soft_cap = read_cap(in, "final_logit_softcapping", kLogitCap);
  read_rotary(in, {}, RopeScalingSupport::kAll, m);
}

// transformers does not look at `type` here, and finds `truncate` in no object of a kind of layer.
void read_scale_of_full_layers(const HfReader& rope, ModelConfig& m) {
  if (rope.find("type") && !rope.find("rope_type"))
    rope.refuse("type", "given", "transformers reads rope_type in this family. Rename the key");
  if (rope.number("partial_rotary_factor", 1, 0, 1) != 1)
    rope.refuse("partial_rotary_factor", "below 1", "this family applies RoPE to the whole head");
  m.rope_theta = rope.number("rope_theta", m.rope_theta, 1, 1e12);
  read_rope_scaling(rope, rope, RopeScalingSupport::kAll, m);
  m.rope_scaling.truncate = true;
}

// Reads two rotary embeddings: one for layers with a window (unscaled), one for the other layers.
// Files of transformers 4 have the keys rope_local_base_freq, rope_theta and rope_scaling; files of
// transformers 5 have one object per kind of layer in rope_parameters.
void read_both_rotaries(const HfReader& in, ModelConfig& m) {
  m.rope_theta = in.number("rope_theta", kGlobalBase, 1, 1e12);
  double local = in.number("rope_local_base_freq", kLocalBase, 1, 1e12);
  const bool has_scale = in.find("rope_scaling") && !in.object("rope_scaling").empty();
  if (in.find("rope_parameters")) {
    const HfReader rope = in.object("rope_parameters");
    if (has_scale)
      in.refuse("rope_scaling", "given", "rope_parameters is given as well. Remove one of them");
    if (rope.find("rope_type") || rope.find("rope_theta") || rope.find("type"))
      in.refuse("rope_parameters", "flat",
                "expected an object for full_attention and one for sliding_attention");
    if (rope.find("full_attention")) read_scale_of_full_layers(rope.object("full_attention"), m);
    if (rope.find("sliding_attention")) {
      const HfReader sliding = rope.object("sliding_attention");
      local = sliding.number("rope_theta", local, 1, 1e12);
      if (sliding.get<std::string>("rope_type", "default") != "default")
        sliding.refuse("rope_type", "not default", "layers with a window use unscaled RoPE");
    }
  } else if (has_scale) {
    read_scale_of_full_layers(in.object("rope_scaling"), m);
  }
  m.window_rope_theta = m.window > 0 ? local : 0;
  // Where all layers slide, the other base is unused.
  if (m.window > 0 && m.window_layers.empty()) m.rope_scaling = {};
}

void read_gemma3(const HfReader& in, ModelConfig& m) {
  m.vocabulary = 262208;
  m.context = 131072;
  read_common(in, in.size("sliding_window_pattern", kPeriod3), m);
  if (in.find("attn_logit_softcapping"))
    in.refuse("attn_logit_softcapping", "given",
              "attention of this family has no cap, in transformers too. Remove the key");
  m.logit_soft_cap = read_cap(in, "final_logit_softcapping", 0);
  read_both_rotaries(in, m);
}

Tree write_common(const char* architecture, const char* type, const ModelConfig& m) {
  Tree out = hf_config_start(architecture, type);
  write_llama(m, out);
  out.set("hidden_activation",
          Tree(std::string(m.gelu == GeluForm::kTanh ? "gelu_pytorch_tanh" : "gelu")));
  // transformers expects an integer here.
  const auto scalar = static_cast<int64_t>(m.attention_scalar);
  if (m.attention_scalar == 0 || m.attention_scalar == static_cast<double>(scalar))
    out.set("query_pre_attn_scalar", Tree(scalar > 0 ? scalar : m.head_size()));
  else
    out.set("query_pre_attn_scalar", Tree(m.attention_scalar));
  out.set("final_logit_softcapping", m.logit_soft_cap > 0 ? Tree(m.logit_soft_cap) : Tree());
  out.set("attn_logit_softcapping", m.attention_soft_cap > 0 ? Tree(m.attention_soft_cap) : Tree());
  out.set("attention_bias", Tree(false));
  write_windows(m, out);
  write_rotary(m, out);
  return out;
}

Tree write_gemma2(const ModelConfig& m) { return write_common("Gemma2ForCausalLM", "gemma2", m); }

Tree write_gemma3(const ModelConfig& m) {
  Tree out = write_common("Gemma3ForCausalLM", "gemma3_text", m);
  out.set("rope_local_base_freq",
          Tree(m.window_rope_theta > 0 ? m.window_rope_theta : m.rope_theta));
  return out;
}

constexpr ModelFamily rule2() {
  ModelFamily rule = llama_like<kForm2>(Family::kGemma2);
  rule.defaults = defaults2;
  rule.presets = kPresets2;
  rule.hf_type = "gemma2";
  rule.hf_read = read_gemma2;
  rule.hf_write = write_gemma2;
  return rule;
}

constexpr ModelFamily rule3() {
  ModelFamily rule = llama_like<kForm3>(Family::kGemma3);
  rule.defaults = defaults3;
  rule.presets = kPresets3;
  rule.hf_type = "gemma3_text";
  rule.hf_read = read_gemma3;
  rule.hf_write = write_gemma3;
  return rule;
}

}  // namespace

const ModelFamily kGemma2Family = rule2();
const ModelFamily kGemma3Family = rule3();

}  // namespace tessera::model
