// Qwen3 (Yang et al. 2025), dense: LLaMA with an RMS norm over each head of queries and keys.
#include "model/hf_attention.h"
#include "model/llama_like.h"

namespace tessera::model {
namespace {

constexpr LlamaForm kForm = {.head_norm = HeadNormForm::kPerHead};

void defaults(ModelConfig& m) {
  llama_defaults(m);
  m.rope_theta = 1'000'000;
  m.norm_epsilon = 1e-6;
}

void wide_heads(ModelConfig& m) { m.head_width = 128; }
void tied(ModelConfig& m) {
  wide_heads(m);
  m.tied_embeddings = true;
}

// Sizes of the config.json files of Qwen/Qwen3-*.
constexpr Preset kPresets[] = {
    {"qwen3-0.6b", 28, 1024, 16, 8, 3072, 151936, 1, 40960, tied},
    {"qwen3-1.7b", 28, 2048, 16, 8, 6144, 151936, 1, 40960, tied},
    {"qwen3-4b", 36, 2560, 32, 8, 9728, 151936, 1, 40960, tied},
    {"qwen3-8b", 36, 4096, 32, 8, 12288, 151936, 1, 40960, wide_heads},
    {"qwen3-14b", 40, 5120, 40, 8, 17408, 151936, 1, 40960, wide_heads},
    {"qwen3-32b", 64, 5120, 64, 8, 25600, 151936, 1, 40960, wide_heads},
};

void read_hf(const HfReader& in, ModelConfig& m) {
  m.vocabulary = 151936;
  m.hidden = 4096;
  m.layers = m.heads = m.kv_heads = 32;
  m.head_width = 128;
  m.feed_forward = 22016;
  m.context = 32768;
  m.rope_theta = 10000;
  read_llama(in, m);
  read_silu(in);
  read_last_windows(in, m);
  read_rotary(in, {}, RopeScalingSupport::kAll, m);
}

Tree write_hf(const ModelConfig& m) {
  Tree out = hf_config_start("Qwen3ForCausalLM", "qwen3");
  write_llama(m, out);
  out.set("hidden_act", Tree(std::string("silu")));
  out.set("use_sliding_window", Tree(m.window > 0));
  write_windows(m, out);
  write_rotary(m, out);
  out.set("attention_bias", Tree(false));
  return out;
}

constexpr ModelFamily rule() {
  ModelFamily rule = llama_like<kForm>(Family::kQwen3);
  rule.defaults = defaults;
  rule.presets = kPresets;
  rule.hf_type = "qwen3";
  rule.hf_read = read_hf;
  rule.hf_write = write_hf;
  rule.hf_overrides_pretokenizer = true;
  return rule;
}

}  // namespace

const ModelFamily kQwen3Family = rule();

}  // namespace tessera::model
