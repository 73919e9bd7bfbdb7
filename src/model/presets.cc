#include "model/presets.h"

#include <array>

#include "model/forward.h"

namespace tessera {
namespace {

struct Size {
  const char* name;
  int64_t layers, hidden, heads;
  int64_t vocabulary_multiple;
  Gelu gelu;
  bool small_init;
};

// EleutherAI/pythia models/*/*.yml and gpt-neox configs/20B.yml; vocabularies are padded to
// 128 × the model-parallel size they were trained with. The activation is what the published
// checkpoints run with in transformers: erf for Pythia, tanh for 20B.
constexpr std::array<Size, 11> kNeox = {{
    {"pythia-14m", 6, 128, 4, 128, Gelu::kErf, true},
    {"pythia-31m", 6, 256, 8, 128, Gelu::kErf, true},
    {"pythia-70m", 6, 512, 8, 128, Gelu::kErf, true},
    {"pythia-160m", 12, 768, 12, 128, Gelu::kErf, true},
    {"pythia-410m", 24, 1024, 16, 128, Gelu::kErf, true},
    {"pythia-1b", 16, 2048, 8, 128, Gelu::kErf, true},
    {"pythia-1.4b", 24, 2048, 16, 128, Gelu::kErf, true},
    {"pythia-2.8b", 32, 2560, 32, 128, Gelu::kErf, true},
    {"pythia-6.9b", 32, 4096, 32, 256, Gelu::kErf, false},
    {"pythia-12b", 36, 5120, 40, 512, Gelu::kErf, false},
    {"gpt-neox-20b", 44, 6144, 64, 256, Gelu::kTanh, true},
}};

// Radford et al. 2019, sizes as released.
constexpr std::array<Size, 4> kGpt2 = {{
    {"gpt2", 12, 768, 12, 128, Gelu::kTanh, false},
    {"gpt2-medium", 24, 1024, 16, 128, Gelu::kTanh, false},
    {"gpt2-large", 36, 1280, 20, 128, Gelu::kTanh, false},
    {"gpt2-xl", 48, 1600, 25, 128, Gelu::kTanh, false},
}};

void apply(const Size& s, ModelConfig& c) {
  c.preset = s.name;
  c.layers = s.layers;
  c.hidden = s.hidden;
  c.heads = s.heads;
  c.vocabulary_multiple = s.vocabulary_multiple;
  c.gelu = s.gelu;
  c.init = s.small_init ? Initialiser::kSmall : Initialiser::kNormal;
  c.output_init = s.small_init ? Initialiser::kWang : Initialiser::kScaledNormal;
}

}  // namespace

bool apply_preset(const std::string& name, ModelConfig& config) {
  for (const Size& s : kNeox)
    if (name == s.name) {
      apply(s, config);
      config.family = Family::kNeox;
      config.vocabulary = 50277;
      config.context = 2048;
      return true;
    }
  for (const Size& s : kGpt2)
    if (name == s.name) {
      apply(s, config);
      config.family = Family::kGpt2;
      config.vocabulary = 50257;
      config.context = 1024;
      config.tied_embeddings = true;
      config.parallel_residual = false;
      config.rotary_share = 0;
      return true;
    }
  return false;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Size& s : kNeox) names.emplace_back(s.name);
  for (const Size& s : kGpt2) names.emplace_back(s.name);
  return names;
}

void derive_sizes(ModelConfig& config) {
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.feed_forward == 0) config.feed_forward = 4 * config.hidden;
}

int64_t parameter_count(const ModelConfig& config) {
  const Graph g = forward(config, 1, 1);
  int64_t n = 0;
  for (const Value& v : g.values)
    if (v.role == Role::kWeight)
      n += v.shape.elements() * ((v.per & kPerLayer) ? config.layers : 1);
  return n;
}

}  // namespace tessera
