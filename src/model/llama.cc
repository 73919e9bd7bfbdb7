// LLaMA (Touvron et al. 2023; Dubey et al. 2024) and models with its architecture, such as HLAT.
#include "model/hf_attention.h"
#include "model/llama_like.h"

namespace tessera::model {
namespace {

constexpr LlamaForm kForm;

void llama3(ModelConfig& m) { m.rope_theta = 500'000; }
void llama31(ModelConfig& m) {
  m.rope_theta = 500'000;
  m.rope_scaling.factor = 8;
}
void llama32(ModelConfig& m) {
  m.rope_theta = 500'000;
  m.rope_scaling.factor = 32;
  m.tied_embeddings = true;
}
void hlat(ModelConfig& m) { m.init_std = 0.021; }

// Sizes as released by Meta. HLAT's are from awslabs/HLAT, which was trained with sequences of
// 4,096.
constexpr Preset kPresets[] = {
    {"llama2-7b", 32, 4096, 32, 32, 11008, 32000, 128, 4096},
    {"llama2-13b", 40, 5120, 40, 40, 13824, 32000, 128, 4096},
    {"llama2-70b", 80, 8192, 64, 8, 28672, 32000, 128, 4096},
    {"llama3-8b", 32, 4096, 32, 8, 14336, 128256, 128, 8192, llama3},
    {"llama3-70b", 80, 8192, 64, 8, 28672, 128256, 128, 8192, llama3},
    {"llama3.1-8b", 32, 4096, 32, 8, 14336, 128256, 128, 131072, llama31},
    {"llama3.1-70b", 80, 8192, 64, 8, 28672, 128256, 128, 131072, llama31},
    {"llama3.1-405b", 126, 16384, 128, 8, 53248, 128256, 128, 131072, llama31},
    {"llama3.2-1b", 16, 2048, 32, 8, 8192, 128256, 128, 131072, llama32},
    {"llama3.2-3b", 28, 3072, 24, 8, 8192, 128256, 128, 131072, llama32},
    {"hlat-7b", 32, 4096, 32, 32, 11008, 32000, 128, 4096, hlat},
    {"hlat-70b", 80, 8192, 64, 8, 28672, 32000, 128, 4096, hlat},
};

void read_hf(const HfReader& in, ModelConfig& m) {
  m.vocabulary = 32000;
  m.hidden = 4096;
  m.layers = m.heads = 32;
  m.feed_forward = 11008;
  m.context = 2048;
  m.norm_epsilon = 1e-6;
  read_llama(in, m);
  read_silu(in);
  if (in.find("sliding_window"))
    in.refuse("sliding_window", "given", "LLaMA attends to the whole text. Remove the key");
  read_rotary(in, {}, RopeScalingSupport::kAll, m);
}

Tree write_hf(const ModelConfig& m) {
  Tree out = hf_config_start("LlamaForCausalLM", "llama");
  write_llama(m, out);
  out.set("hidden_act", Tree(std::string("silu")));
  write_rotary(m, out);
  out.set("attention_bias", Tree(false));
  out.set("mlp_bias", Tree(false));
  return out;
}

constexpr ModelFamily rule() {
  ModelFamily rule = llama_like<kForm>(Family::kLlama);
  rule.presets = kPresets;
  rule.hf_type = "llama";
  rule.hf_read = read_hf;
  rule.hf_write = write_hf;
  return rule;
}

}  // namespace

const ModelFamily kLlamaFamily = rule();

}  // namespace tessera::model
