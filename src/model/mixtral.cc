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
  read_rotary(in, {}, RopeScalingSupport::kAll, m);
}

Tree write_hf(const ModelConfig& m) {
  if (!m.dense_layers.empty())
    throw Error(
        "model.dense_layers is not empty, but MixtralForCausalLM has experts in every layer. This "
        "model cannot be exported.");
  check_softmax_router(m.router, "MixtralForCausalLM");
  if (!m.router.renormalize)
    throw Error(
        "MixtralForCausalLM requires model.router.renormalize = true, but this model has false. It "
        "cannot be exported.");
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

constexpr ExpertNames kNames = {"block_sparse_moe", "w1", "w3", "w2"};

constexpr ModelFamily rule() {
  ModelFamily rule = llama_like<kForm>(Family::kMixtral);
  rule.defaults = defaults;
  rule.presets = kPresets;
  rule.has_experts = true;
  rule.hf_type = "mixtral";
  rule.hf_read = read_hf;
  rule.hf_write = write_hf;
  rule.hf_tensors = [](const ModelConfig& m, HfTensorList& list) {
    add_llama_tensors(m, kForm, list);
    add_expert_tensors(m, kNames, list);
  };
  return rule;
}

}  // namespace

const ModelFamily kMixtralFamily = rule();

}  // namespace tessera::model
