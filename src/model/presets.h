// Known models by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/model_config.h"

namespace tessera::model {

// Sets the family and what it has other than ModelConfig's own defaults.
void apply_family(Family family, ModelConfig& config);

// Fills `config` with the sizes of the named model; false if there is none of that name.
bool apply_preset(const std::string& name, ModelConfig& config);
std::vector<std::string> preset_names();

// Fills what 0 means "derived": kv_heads, feed_forward. A preset's lists of layers are cut to the
// model's layers.
void derive_sizes(ModelConfig& config);

// All trained elements, embeddings included (padded vocabulary).
int64_t parameter_count(const ModelConfig& config);

}  // namespace tessera::model
