// Qwen2 and Qwen2.5 (Yang et al. 2024): LLaMA with a bias on queries, keys and values.
#include "model/hf_attention.h"
#include "model/llama_like.h"

namespace tessera::model {
namespace {

constexpr LlamaForm kForm = {.head_biases = true};

void defaults(ModelConfig& m) {
  llama_defaults(m);
  m.rope_theta = 1'000'000;
  m.norm_epsilon = 1e-6;
}

void tied(ModelConfig& m) { m.tied_embeddings = true; }

// Sizes and contexts of the config.json files of Qwen/Qwen2-* and Qwen/Qwen2.5-*.
constexpr Preset kPresets[] = {
    {"qwen2-0.5b", 24, 896, 14, 2, 4864, 151936, 1, 131072, tied},
    {"qwen2-1.5b", 28, 1536, 12, 2, 8960, 151936, 1, 131072, tied},
    {"qwen2-7b", 28, 3584, 28, 4, 18944, 152064, 1, 131072},
    {"qwen2-72b", 80, 8192, 64, 8, 29568, 152064, 1, 131072},
    {"qwen2.5-3b", 36, 2048, 16, 2, 11008, 151936, 1, 32768, tied},
    {"qwen2.5-14b", 48, 5120, 40, 8, 13824, 152064, 1, 131072},
    {"qwen2.5-32b", 64, 5120, 40, 8, 27648, 152064, 1, 131072},
};

void read_hf(const HfReader& in, ModelConfig& m) {
  m.vocabulary = 151936;
  m.hidden = 4096;
  m.layers = m.heads = m.kv_heads = 32;
  m.feed_forward = 22016;
  m.context = 32768;
  m.rope_theta = 10000;
  read_llama(in, m);
  read_silu(in);
  read_last_windows(in, m);
  read_rotary(in, {}, RopeScalingSupport::kAll, m);
}

Tree write_hf(const ModelConfig& m) {
  Tree out = hf_config_start("Qwen2ForCausalLM", "qwen2");
  write_llama(m, out);
  out.set("hidden_act", Tree(std::string("silu")));
  out.set("use_sliding_window", Tree(m.window > 0));
  write_windows(m, out);
  write_rotary(m, out);
  return out;
}

constexpr ModelFamily rule() {
  ModelFamily rule = llama_like<kForm>(Family::kQwen2);
  rule.defaults = defaults;
  rule.presets = kPresets;
  rule.hf_type = "qwen2";
  rule.hf_read = read_hf;
  rule.hf_write = write_hf;
  rule.hf_overrides_pretokenizer = true;
  return rule;
}

}  // namespace

const ModelFamily kQwen2Family = rule();

}  // namespace tessera::model
