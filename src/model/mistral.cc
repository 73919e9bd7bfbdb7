// Mistral (Jiang et al. 2023): LLaMA with a sliding window on all layers, or on none.
#include "model/hf_attention.h"
#include "model/llama_like.h"

namespace tessera::model {
namespace {

constexpr LlamaForm kForm;

void first(ModelConfig& m) { m.window = 4096; }
void million(ModelConfig& m) { m.rope_theta = 1'000'000; }
void nemo(ModelConfig& m) {
  million(m);
  m.head_width = 128;
}
void small(ModelConfig& m) {
  nemo(m);
  m.rope_theta = 100'000'000;
}

// Sizes of the config.json files of mistralai/*.
constexpr Preset kPresets[] = {
    {"mistral-7b-v0.1", 32, 4096, 32, 8, 14336, 32000, 1, 32768, first},
    {"mistral-7b-v0.3", 32, 4096, 32, 8, 14336, 32768, 1, 32768, million},
    {"mistral-nemo-12b", 40, 5120, 32, 8, 14336, 131072, 1, 131072, nemo},
    {"mistral-small-24b", 40, 5120, 32, 8, 32768, 131072, 1, 32768, small},
};

void read_hf(const HfReader& in, ModelConfig& m) {
  m.vocabulary = 32000;
  m.hidden = 4096;
  m.layers = m.heads = 32;
  m.kv_heads = 8;
  m.feed_forward = 14336;
  m.context = 131072;
  m.norm_epsilon = 1e-6;
  read_llama(in, m);
  read_silu(in);
  m.window = in.is_null("sliding_window") ? 0 : in.size("sliding_window", 4096);
  if (in.find("layer_types"))
    in.refuse("layer_types", "given",
              "the layers of this family are alike, in transformers too. Remove the key");
  read_rotary(in, {}, RopeScalingSupport::kAll, m);
}

Tree write_hf(const ModelConfig& m) {
  Tree out = hf_config_start("MistralForCausalLM", "mistral");
  write_llama(m, out);
  out.set("hidden_act", Tree(std::string("silu")));
  out.set("sliding_window", m.window > 0 ? Tree(m.window) : Tree());
  write_rotary(m, out);
  return out;
}

constexpr ModelFamily rule() {
  ModelFamily rule = llama_like<kForm>(Family::kMistral);
  rule.presets = kPresets;
  rule.hf_type = "mistral";
  rule.hf_read = read_hf;
  rule.hf_write = write_hf;
  return rule;
}

}  // namespace

const ModelFamily kMistralFamily = rule();

}  // namespace tessera::model
