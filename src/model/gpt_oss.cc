// gpt-oss (OpenAI 2025): LLaMA with experts in place of every MLP, a sink per head in attention,
// windows in every second layer, and biases on all matrices of a layer. The router computes the
// softmax over the chosen logits, which is that over all of them divided by the sum of the chosen.
//
//   ours                                 Hugging Face: model.layers.I.…
//   layerI.mlp.router.weight [E,F]       mlp.router.weight
//   layerI.mlp.router.logit_bias [E]     mlp.router.bias
//   layerI.mlp.experts.up.weight         mlp.experts.gate_up_proj [E,F,2M]: gate and value
//   alternate
//     [E,M,2,F]
//   layerI.mlp.experts.up.bias [E,M,2]   mlp.experts.gate_up_proj_bias [E,2M]
//   layerI.mlp.experts.down.weight       mlp.experts.down_proj [E,M,F]
//     [E,F,M]
//   layerI.mlp.experts.down.bias [E,F]   mlp.experts.down_proj_bias
//   all else                             as in llama_like.cc
//
// Published files have the two matrices of experts in MXFP4 (checkpoint/mxfp4.h).
#include <cmath>

#include "base/error.h"
#include "model/hf_attention.h"
#include "model/llama_like.h"

namespace tessera::model {
namespace {

constexpr LlamaForm kForm = {.head_biases = true,
                             .out_bias = true,
                             .sinks = true,
                             .experts = {.gate = GateForm::kClamped, .biases = true}};
constexpr int64_t kWindow = 128, kPeriod = 2, kFirstContext = 4096;
constexpr double kBase = 150'000, kFactor = 32;
// The only limit and slope of the gate that Tessera computes (kernels/gated_activation.h).
constexpr double kLimit = 7, kSlope = 1.702;

bool has_window(int64_t layer) { return layer % kPeriod == 0; }

void defaults(ModelConfig& m) {
  llama_defaults(m);
  m.rope_theta = kBase;
  m.experts = 8;
  m.experts_per_token = 4;
}

void scale(ModelConfig& m) {
  m.rope_scaling.rope_type = RopeType::kYarn;
  m.rope_scaling.factor = kFactor;
  m.rope_scaling.original_max_position_embeddings = kFirstContext;
  m.rope_scaling.truncate = false;
}

template <int64_t experts>
void published(ModelConfig& m) {
  m.head_width = 64;
  m.experts = experts;
  m.experts_per_token = 4;
  m.window = kWindow;
  m.window_layers.clear();
  for (int64_t l = 0; l < m.layers; ++l)
    if (has_window(l)) m.window_layers.push_back(l);
  scale(m);
}

// Sizes of the config.json files of openai/gpt-oss-*.
constexpr Preset kPresets[] = {
    {"gpt-oss-20b", 24, 2880, 64, 8, 2880, 201088, 1, 131072, published<32>},
    {"gpt-oss-120b", 36, 2880, 64, 8, 2880, 201088, 1, 131072, published<128>},
};

void check_gate(const HfReader& in) {
  for (const auto& [key, computed] :
       {std::pair{"swiglu_limit", kLimit}, std::pair{"swiglu_alpha", kSlope}})
    if (const double x = in.number(key, computed, 0, 1e9); std::abs(x - computed) > 1e-6)
      in.refuse(key, fmt::format("{}", x), fmt::format("Tessera computes {}", computed));
}

// A file without the keys of a rotary embedding has the published one.
void read_frequencies(const HfReader& in, ModelConfig& m) {
  if (in.find("rope_scaling") || in.find("rope_parameters"))
    return read_rotary(in, {}, RopeScalingSupport::kAll, m);
  read_rotary(in, {}, RopeScalingSupport::kUnscaled, m);
  ModelConfig published;
  scale(published);
  const Tree rope = rope_scaling_tree(published.rope_scaling);
  read_rope_scaling(in, HfReader(rope, "the default of gpt_oss"), RopeScalingSupport::kAll, m);
}

void read_hf(const HfReader& in, ModelConfig& m) {
  m.vocabulary = 201088;
  m.hidden = m.feed_forward = 2880;
  m.layers = 36;
  m.heads = 64;
  m.kv_heads = 8;
  m.head_width = 64;
  m.context = 131072;
  m.norm_epsilon = 1e-5;
  read_llama(in, m, true);
  read_silu(in);
  check_gate(in);
  m.experts = in.size("num_local_experts", in.size("num_experts", 128));
  m.experts_per_token = in.size("num_experts_per_tok", in.size("experts_per_token", 4));
  const int64_t window = in.is_null("sliding_window") ? 0 : in.size("sliding_window", kWindow);
  read_windows(in, window, has_window, m);
  read_frequencies(in, m);
}

[[noreturn]] void refuse_export(const char* key, const char* why) {
  throw Error("{}, but GptOssForCausalLM {}. This model cannot be exported.", key, why);
}

Tree write_hf(const ModelConfig& m) {
  check_softmax_router(m.router, "GptOssForCausalLM");
  if (!m.dense_layers.empty())
    refuse_export("model.dense_layers is not empty", "has experts in every layer");
  if (!m.router.renormalize)
    refuse_export("model.router.renormalize = false", "divides the weights by their sum");
  Tree out = hf_config_start("GptOssForCausalLM", "gpt_oss");
  write_llama(m, out);
  out.set("intermediate_size", Tree(expert_width(m)));
  out.set("num_local_experts", Tree(m.experts));
  out.set("num_experts_per_tok", Tree(m.experts_per_token));
  out.set("experts_per_token", Tree(m.experts_per_token));
  out.set("output_router_logits", Tree(false));
  out.set("hidden_act", Tree(std::string("silu")));
  out.set("swiglu_limit", Tree(kLimit));
  out.set("attention_bias", Tree(true));
  write_windows(m, out);
  // The class makes the mask of a window even if no layer uses it.
  if (m.window == 0) out.set("sliding_window", Tree(kWindow));
  write_rotary(m, out);
  // Without this object, the class has the published scaling.
  if (out.find("rope_scaling")->is_null()) {
    Tree unscaled = Tree::object();
    unscaled.set("rope_type", Tree(std::string("default")));
    out.set("rope_scaling", std::move(unscaled));
  }
  return out;
}

// The entries of one expert each, so that a conversion needs the memory of one.
void add_experts(const ModelConfig& m, int64_t layer, HfTensorList& list) {
  const int64_t E = m.experts, F = m.hidden, M = inner_width(m, layer);
  const std::string ours = fmt::format("layer{}.mlp.", layer);
  const std::string theirs = fmt::format("model.layers.{}.mlp.", layer);
  list.same(ours + "router.weight", theirs + "router.weight", {E, F});
  list.same(ours + "router.logit_bias", theirs + "router.bias", {E});
  const std::string own = ours + "experts.", experts = theirs + "experts.";
  for (int64_t j = 0; j < E; ++j)
    list.moved_rows(own + "up.weight", {E, M, 2, F}, {j, 0, 0, 0}, experts + "gate_up_proj",
                    {E, F, 2 * M}, j, {1, F, M, 2}, {0, 2, 3, 1});
  list.flat(own + "up.bias", experts + "gate_up_proj_bias", {E, M, 2}, {E, 2 * M});
  for (int64_t j = 0; j < E; ++j)
    list.moved_rows(own + "down.weight", {E, F, M}, {j, 0, 0}, experts + "down_proj", {E, M, F}, j,
                    {1, M, F}, {0, 2, 1});
  list.same(own + "down.bias", experts + "down_proj_bias", {E, F});
}

constexpr ModelFamily rule() {
  ModelFamily rule = llama_like<kForm>(Family::kGptOss);
  rule.may_have_mtp = false;  // its gradient is not verified
  rule.defaults = defaults;
  rule.presets = kPresets;
  rule.has_experts = true;
  rule.hf_type = "gpt_oss";
  rule.hf_read = read_hf;
  rule.hf_write = write_hf;
  rule.hf_tensors = [](const ModelConfig& m, HfTensorList& list) {
    add_llama_tensors(m, kForm, list);
    for (int64_t i = 0; i < m.layers; ++i)
      if (has_experts(m, i)) add_experts(m, i, list);
  };
  rule.hf_mxfp4 = true;
  return rule;
}

}  // namespace

const ModelFamily kGptOssFamily = rule();

}  // namespace tessera::model
