// SmolLM3 (Bakouch et al. 2025): LLaMA without rotary embedding in every fourth layer.
//
// Layers without rotary embedding ("NoPE") attend by content only, which extrapolates to longer
// contexts (Yang et al. 2025); the others provide positions. `no_rope_layers` in our configuration
// lists their numbers, the key of the same name in a config.json has a flag per layer.
#include <algorithm>

#include "model/hf_attention.h"
#include "model/llama_like.h"

namespace tessera::model {
namespace {

constexpr LlamaForm kForm;

void defaults(ModelConfig& m) {
  llama_defaults(m);
  m.rope_theta = 2'000'000;
  m.norm_epsilon = 1e-6;
  m.tied_embeddings = true;
}

void every_fourth(ModelConfig& m, int64_t interval) {
  m.no_rope_layers.clear();
  for (int64_t l = interval - 1; l < m.layers; l += interval) m.no_rope_layers.push_back(l);
}

void released(ModelConfig& m) {
  m.rope_theta = 5'000'000;
  every_fourth(m, 4);
}

// The config.json of HuggingFaceTB/SmolLM3-3B.
constexpr Preset kPresets[] = {
    {"smollm3-3b", 36, 2048, 16, 4, 11008, 128256, 1, 65536, released},
};

bool has_rotary(const ModelConfig& m, int64_t layer) {
  return !std::binary_search(m.no_rope_layers.begin(), m.no_rope_layers.end(), layer);
}

// no_rope_layers of transformers has a 1 for each layer *with* a rotary embedding.
void read_no_rope_layers(const HfReader& in, ModelConfig& m) {
  if (!in.find("no_rope_layers")) return every_fourth(m, in.size("no_rope_layer_interval", 4));
  const auto list = in.get<std::vector<int64_t>>("no_rope_layers", {});
  if (std::ssize(list) < m.layers)
    in.refuse("no_rope_layers", fmt::format("a list of {}", list.size()),
              fmt::format("num_hidden_layers is {}", m.layers));
  m.no_rope_layers.clear();
  for (int64_t l = 0; l < m.layers; ++l)
    if (list[l] == 0) m.no_rope_layers.push_back(l);
}

void read_hf(const HfReader& in, ModelConfig& m) {
  m.vocabulary = 128256;
  m.hidden = 2048;
  m.layers = 36;
  m.heads = 16;
  m.kv_heads = 4;
  m.feed_forward = 11008;
  m.context = 32768;
  read_llama(in, m);
  read_silu(in);
  read_no_rope_layers(in, m);
  const int64_t window = read_used_window(in, 0);
  read_windows(
      in, window, [&](int64_t l) { return window > 0 && !has_rotary(m, l); }, m);
  read_rotary(in, {}, RopeScalingSupport::kAll, m);
}

Tree write_hf(const ModelConfig& m) {
  Tree out = hf_config_start("SmolLM3ForCausalLM", "smollm3");
  write_llama(m, out);
  out.set("hidden_act", Tree(std::string("silu")));
  out.set("use_sliding_window", Tree(m.window > 0));
  write_windows(m, out);
  write_rotary(m, out);
  Tree turns = Tree::list();
  for (int64_t l = 0; l < m.layers; ++l) turns.push(Tree(int64_t{has_rotary(m, l)}));
  out.set("no_rope_layers", std::move(turns));
  out.set("attention_bias", Tree(false));
  out.set("mlp_bias", Tree(false));
  return out;
}

constexpr ModelFamily rule() {
  ModelFamily rule = llama_like<kForm>(Family::kSmollm3);
  rule.defaults = defaults;
  rule.presets = kPresets;
  rule.hf_type = "smollm3";
  rule.hf_read = read_hf;
  rule.hf_write = write_hf;
  return rule;
}

}  // namespace

const ModelFamily kSmollm3Family = rule();

}  // namespace tessera::model
