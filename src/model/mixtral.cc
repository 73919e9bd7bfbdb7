// Mixtral (Jiang et al. 2024): LLaMA with experts in place of the MLP, two per token.
//
//   ours                                 Hugging Face: model.layers.I.block_sparse_moe.…
//   layerI.mlp.router.weight [E,F]       gate.weight
//   layerI.mlp.experts.up.weight         experts.J.w1.weight [M,F] (gate) and experts.J.w3.weight
//     [E,M,2,F]                          (value)
//   layerI.mlp.experts.down.weight       experts.J.w2.weight [F,M]
//     [E,F,M]
//   all else                             as in llama_like.cc
#include "base/error.h"
#include "model/hf_attention.h"
#include "model/llama_like.h"

namespace tessera::model {
namespace {

constexpr LlamaForm kForm;

void defaults(ModelConfig& m) {
  llama_defaults(m);
  m.rope_theta = 1'000'000;
  m.experts = 8;
  m.experts_per_token = 2;
}

// Sizes of the config.json files of mistralai/Mixtral-*-v0.1.
constexpr Preset kPresets[] = {
    {"mixtral-8x7b", 32, 4096, 32, 8, 14336, 32000, 128, 32768},
    {"mixtral-8x22b", 56, 6144, 48, 8, 16384, 32000, 128, 65536},
};

void read_hf(const HfReader& in, ModelConfig& m) {
  m.vocabulary = 32000;
  m.hidden = 4096;
  m.layers = m.heads = 32;
  m.kv_heads = 8;
  m.feed_forward = 14336;
  m.context = 131072;
  m.norm_epsilon = 1e-5;
  read_llama(in, m);
  read_silu(in);
  m.experts = in.size("num_local_experts", in.size("num_experts", m.experts));
  m.experts_per_token = in.size("num_experts_per_tok", m.experts_per_token);
  if (in.number("router_jitter_noise", 0, 0, 1) != 0)
    in.refuse("router_jitter_noise", "given", "Tessera adds no noise to the router's input");
  m.window = in.find("sliding_window") ? in.size("sliding_window", 1) : 0;
  read_rotary(in, {}, Ropes::kAll, m);
}

Tree write_hf(const ModelConfig& m) {
  if (!m.dense_layers.empty())
    throw Error(
        "model.dense_layers is not empty, but MixtralForCausalLM has experts in every layer. This "
        "model cannot be exported.");
  if (m.router.score != RouterScore::kSoftmax || !m.router.renormalize || m.router.scale != 1 ||
      m.router.groups != 1 || m.router.bias)
    throw Error(
        "MixtralForCausalLM requires model.router.score = softmax, model.router.renormalize = "
        "true, "
        "model.router.scale = 1, model.router.groups = 1 and model.router.bias = false, but this "
        "model "
        "has score = {}, renormalize = {}, scale = {}, groups = {}, bias = {}. It cannot be "
        "exported.",
        name_of_entry(m.router.score), m.router.renormalize, m.router.scale, m.router.groups,
        m.router.bias);
  Tree out = hf_config_start("MixtralForCausalLM", "mixtral");
  write_llama(m, out);
  out.set("intermediate_size", Tree(expert_width(m)));
  out.set("num_local_experts", Tree(m.experts));
  out.set("num_experts_per_tok", Tree(m.experts_per_token));
  out.set("router_jitter_noise", Tree(0.0));
  out.set("output_router_logits", Tree(false));
  out.set("hidden_act", Tree(std::string("silu")));
  out.set("sliding_window", m.window > 0 ? Tree(m.window) : Tree());
  write_rotary(m, out);
  return out;
}

void add_tensors(const ModelConfig& m, HfTensorList& list) {
  const int64_t E = m.experts, F = m.hidden;
  add_llama_tensors(m, kForm, list);
  for (int64_t i = 0; i < m.layers; ++i) {
    if (!has_experts(m, i)) continue;
    const int64_t M = inner_width(m, i);
    const std::string ours = fmt::format("layer{}.mlp.", i);
    const std::string theirs = fmt::format("model.layers.{}.block_sparse_moe.", i);
    list.same(ours + "router.weight", theirs + "gate.weight", {E, F});
    const auto expert = [&](int64_t j, const char* name) {
      return fmt::format("{}experts.{}.{}.weight", theirs, j, name);
    };
    const std::string up = ours + "experts.up.weight", down = ours + "experts.down.weight";
    for (int64_t j = 0; j < E; ++j) {
      list.part(up, {E, M, 2, F}, {j, 0, 0, 0}, expert(j, "w1"), {M, F}, {1, M, 1, F});
      list.part(up, {E, M, 2, F}, {j, 0, 1, 0}, expert(j, "w3"), {M, F}, {1, M, 1, F});
    }
    for (int64_t j = 0; j < E; ++j)
      list.part(down, {E, F, M}, {j, 0, 0}, expert(j, "w2"), {F, M}, {1, F, M});
  }
}

constexpr FamilyRule rule() {
  FamilyRule rule = llama_like<kForm>(Family::kMixtral);
  rule.defaults = defaults;
  rule.presets = kPresets;
  rule.has_experts = true;
  rule.hf_type = "mixtral";
  rule.hf_read = read_hf;
  rule.hf_write = write_hf;
  rule.hf_tensors = add_tensors;
  return rule;
}

}  // namespace

const FamilyRule kMixtralFamily = rule();

}  // namespace tessera::model
