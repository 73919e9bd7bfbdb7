// The rules that the sizes and rotary numbers of a model must obey, wherever they come from: a run
// file, the header of a checkpoint, a config.json.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/model_config.h"

namespace tessera::model {

constexpr int64_t kMostLayers = 10'000;
constexpr int64_t kMostContext = int64_t{1} << 24;
// The largest number of weights, and of activations that exist at the same time: their bytes can be
// counted in 64 bits.
constexpr double kMostNumbers = 1e16;

// `model` has derived sizes (derive_sizes). Throws Error, whose message begins with the key
// ("model.heads = 5 does not divide …"). A vocabulary of 0 is allowed: it is not known yet.
void check_model(const ModelConfig& model);

// Whether a key of the model section changes the shapes of weights or what they compute.
bool changes_model(std::string_view key, Family family);

// The model in a form in which models that compute the same are equal: sizes derived, what follows
// from other keys left out, and no preset, which is only where the values came from.
ModelConfig comparable(ModelConfig model);

// For messages: the divisors of n that a person would choose, 24 at most.
std::vector<int64_t> divisors(int64_t n);

}  // namespace tessera::model
