// Qwen3-MoE (Yang et al. 2025): Qwen3 with experts in place of the MLP of most layers.
//
//   ours                                 Hugging Face: model.layers.I.mlp.…
//   layerI.mlp.router.weight [E,F]       gate.weight
//   layerI.mlp.experts.up.weight         experts.J.gate_proj.weight [M,F] and
//     [E,M,2,F]                          experts.J.up_proj.weight [M,F]
//   layerI.mlp.experts.down.weight       experts.J.down_proj.weight [F,M]
//     [E,F,M]
//   all else                             as in llama_like.cc
#include <algorithm>

#include "base/error.h"
#include "model/hf_attention.h"
#include "model/llama_like.h"

namespace tessera::model {
namespace {

constexpr LlamaForm kForm = {.head_norm = HeadNormForm::kPerHead};
constexpr ExpertNames kNames = {"mlp", "gate_proj", "up_proj", "down_proj"};

void defaults(ModelConfig& m) {
  llama_defaults(m);
  m.rope_theta = 1'000'000;
  m.norm_epsilon = 1e-6;
  m.experts = 8;
  m.experts_per_token = 2;
}

template <int64_t width>
void experts_of(ModelConfig& m) {
  m.head_width = 128;
  m.experts = 128;
  m.experts_per_token = 8;
  m.expert_feed_forward = width;
}

// Sizes of the config.json files of Qwen/Qwen3-*-A*.
constexpr Preset kPresets[] = {
    {"qwen3-30b-a3b", 48, 2048, 32, 4, 6144, 151936, 1, 40960, experts_of<768>},
    {"qwen3-235b-a22b", 94, 4096, 64, 4, 12288, 151936, 1, 40960, experts_of<1536>},
};

// Layer i has experts if (i + 1) is a multiple of decoder_sparse_step and mlp_only_layers does not
// list it.
void read_dense_layers(const HfReader& in, ModelConfig& m) {
  const int64_t step = in.size("decoder_sparse_step", 1);
  const auto only = in.is_null("mlp_only_layers")
                        ? std::vector<int64_t>()
                        : in.get<std::vector<int64_t>>("mlp_only_layers", {});
  m.dense_layers.clear();
  for (int64_t i = 0; i < m.layers; ++i)
    if ((i + 1) % step != 0 || std::find(only.begin(), only.end(), i) != only.end())
      m.dense_layers.push_back(i);
}

void read_hf(const HfReader& in, ModelConfig& m) {
  m.vocabulary = 151936;
  m.hidden = 2048;
  m.layers = 24;
  m.heads = 32;
  m.kv_heads = 4;
  m.feed_forward = 6144;
  m.context = 32768;
  m.rope_theta = 10000;
  read_llama(in, m);
  read_silu(in);
  m.experts = in.size("num_experts", in.size("num_local_experts", 128));
  m.experts_per_token = in.size("num_experts_per_tok", 8);
  m.expert_feed_forward = in.size("moe_intermediate_size", 768);
  m.router.renormalize = in.get<bool>("norm_topk_prob", false);
  read_dense_layers(in, m);
  m.window = read_used_window(in, 4096);
  read_rotary(in, {}, RopeScalingSupport::kAll, m);
}

Tree write_hf(const ModelConfig& m) {
  check_softmax_router(m.router, "Qwen3MoeForCausalLM");
  if (m.window > 0 && !m.window_layers.empty())
    throw Error(
        "model.window_layers is not empty, but Qwen3MoeForCausalLM has one window for all layers. "
        "This model cannot be exported.");
  Tree out = hf_config_start("Qwen3MoeForCausalLM", "qwen3_moe");
  write_llama(m, out);
  out.set("num_experts", Tree(m.experts));
  out.set("num_experts_per_tok", Tree(m.experts_per_token));
  out.set("moe_intermediate_size", Tree(expert_width(m)));
  out.set("norm_topk_prob", Tree(m.router.renormalize));
  out.set("decoder_sparse_step", Tree(int64_t{1}));
  Tree dense = Tree::list();
  for (const int64_t layer : m.dense_layers) dense.push(Tree(layer));
  out.set("mlp_only_layers", std::move(dense));
  out.set("output_router_logits", Tree(false));
  out.set("hidden_act", Tree(std::string("silu")));
  out.set("use_sliding_window", Tree(m.window > 0));
  out.set("sliding_window", m.window > 0 ? Tree(m.window) : Tree());
  write_rotary(m, out);
  out.set("attention_bias", Tree(false));
  return out;
}

constexpr ModelFamily rule() {
  ModelFamily rule = llama_like<kForm>(Family::kQwen3Moe);
  rule.defaults = defaults;
  rule.presets = kPresets;
  rule.has_experts = true;
  rule.hf_type = "qwen3_moe";
  rule.hf_read = read_hf;
  rule.hf_write = write_hf;
  rule.hf_tensors = [](const ModelConfig& m, HfTensorList& list) {
    add_llama_tensors(m, kForm, list);
    add_expert_tensors(m, kNames, list);
  };
  rule.hf_overrides_pretokenizer = true;
  return rule;
}

}  // namespace

const ModelFamily kQwen3MoeFamily = rule();

}  // namespace tessera::model
