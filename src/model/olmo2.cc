// OLMo 2 (OLMo et al. 2024): LLaMA with its norms after attention and MLP, and an RMS norm over all
// queries and all keys of a token.
#include "model/hf_attention.h"
#include "model/llama_like.h"

namespace tessera::model {
namespace {

constexpr LlamaForm kForm = {.norms = NormPlaces::kAfter, .head_norm = HeadNormForm::kWhole};

void defaults(ModelConfig& m) {
  llama_defaults(m);
  m.rope_theta = 500'000;
  m.norm_epsilon = 1e-6;
}

// Sizes of the config.json files of allenai/OLMo-2-*.
constexpr Preset kPresets[] = {
    {"olmo2-1b", 16, 2048, 16, 16, 8192, 100352, 1, 4096},
    {"olmo2-7b", 32, 4096, 32, 32, 11008, 100352, 1, 4096},
    {"olmo2-13b", 40, 5120, 40, 40, 13824, 100352, 1, 4096},
    {"olmo2-32b", 64, 5120, 40, 8, 27648, 100352, 1, 4096},
};

void read_hf(const HfReader& in, ModelConfig& m) {
  m.vocabulary = 50304;
  m.hidden = 4096;
  m.layers = m.heads = 32;
  m.feed_forward = 11008;
  m.context = 2048;
  m.norm_epsilon = 1e-5;
  m.rope_theta = 10000;
  read_llama(in, m);
  read_silu(in);
  if (in.find("sliding_window"))
    in.refuse("sliding_window", "given", "OLMo 2 attends to the whole text. Remove the key");
  read_rotary(in, {}, RopeScalingSupport::kAll, m);
}

Tree write_hf(const ModelConfig& m) {
  Tree out = hf_config_start("Olmo2ForCausalLM", "olmo2");
  write_llama(m, out);
  out.set("hidden_act", Tree(std::string("silu")));
  write_rotary(m, out);
  out.set("attention_bias", Tree(false));
  return out;
}

constexpr ModelFamily rule() {
  ModelFamily rule = llama_like<kForm>(Family::kOlmo2);
  rule.defaults = defaults;
  rule.presets = kPresets;
  rule.hf_type = "olmo2";
  rule.hf_read = read_hf;
  rule.hf_write = write_hf;
  return rule;
}

}  // namespace

const ModelFamily kOlmo2Family = rule();

}  // namespace tessera::model
