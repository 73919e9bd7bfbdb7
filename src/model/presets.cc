// Presets by name, and counts that follow from a configuration. parameter_count() writes the
// forward graph and counts its weights, so it cannot disagree with the model.
#include "model/presets.h"

#include <algorithm>

#include "base/error.h"
#include "model/family.h"

namespace tessera::model {

void apply_family(Family family, ModelConfig& config) {
  config.family = family;
  if (rule_of(family).defaults != nullptr) rule_of(family).defaults(config);
}

bool apply_preset(const std::string& name, ModelConfig& config) {
  for (const ModelFamily* f : all_families())
    for (const Preset& p : f->presets) {
      if (name != p.name) continue;
      apply_family(f->family, config);
      config.preset = p.name;
      config.layers = p.layers;
      config.hidden = p.hidden;
      config.heads = p.heads;
      config.kv_heads = p.kv_heads == p.heads ? 0 : p.kv_heads;  // follows heads that are given
      config.feed_forward = p.feed_forward;
      config.vocabulary = p.vocabulary;
      config.vocabulary_multiple = p.vocabulary_multiple;
      config.context = p.context;
      if (p.more != nullptr) p.more(config);
      return true;
    }
  return false;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const ModelFamily* f : all_families())
    for (const Preset& p : f->presets) names.emplace_back(p.name);
  return names;
}

namespace {

// Removes layer numbers beyond the model's layers from lists that the preset set.
void fit_lists(ModelConfig& config) {
  ModelConfig preset;
  if (config.preset.empty() || !apply_preset(config.preset, preset)) return;
  for (const auto list :
       {&ModelConfig::no_rope_layers, &ModelConfig::window_layers, &ModelConfig::dense_layers})
    if (config.*list == preset.*list)
      std::erase_if(config.*list, [&](int64_t l) { return l >= config.layers; });
}

}  // namespace

void derive_sizes(ModelConfig& config) {
  config.kv_heads = key_value_heads(config);
  config.feed_forward = inner_width(config);
  fit_lists(config);
}

int64_t parameter_count(const ModelConfig& config) {
  const Graph g = forward(config, 1, 1);
  const auto layers_of = [&](ValueId v) {
    for (const Block& b : g.blocks)
      for (const Op& op : b.forward)
        if (std::find(op.inputs.begin(), op.inputs.end(), v) != op.inputs.end()) return b.count();
    CHECK(false, "{} is of no block", g[v].name);
  };
  int64_t n = 0;
  for (const ValueId v : g.values.ids())
    if (g[v].role == Role::kWeight)
      n += g[v].shape.elements() * ((g[v].indexed_by & kPerLayer) ? layers_of(v) : 1);
  return n;
}

}  // namespace tessera::model
