// Names of weights that several modules need: the score of a reward model, and weights that are
// stored in 4 bits (base/nf4.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::model {

// The weight [1, hidden] that replaces the LM head of a reward model.
inline constexpr std::string_view kScoreHead = "head.score.weight";

// Suffixes of weights in 4 bits. Each part of a packed weight is stored by itself: the part q of
// layer3.attn.qkv.weight is layer3.attn.qkv.q.nf4, .nf4_scales and .nf4_levels.
inline constexpr std::string_view kNf4Codes = ".nf4", kNf4Scales = ".nf4_scales",
                                  kNf4Levels = ".nf4_levels";

// Returns "layer3.attn.qkv" for "layer3.attn.qkv.weight"; other names are unchanged.
inline std::string without_weight(std::string_view name) {
  constexpr std::string_view kWeight = ".weight";
  if (name.ends_with(kWeight)) name.remove_suffix(kWeight.size());
  return std::string(name);
}

// Returns the name of a stored value of a weight "layer3.attn.qkv.weight", or of one of its parts.
// `part` is empty for a weight that is one matrix.
inline std::string quantized_name(std::string_view weight, std::string_view part,
                                  std::string_view suffix) {
  std::string name = without_weight(weight);
  if (!part.empty()) name.append(".").append(part);
  return name.append(suffix);
}

// Returns true for the name of a stored value of a quantized weight.
inline bool is_quantized_name(std::string_view name) {
  return name.ends_with(kNf4Codes) || name.ends_with(kNf4Scales) || name.ends_with(kNf4Levels);
}

// Returns the number of the model's parameters in `elements` elements of a stored tensor: two per
// byte of codes, none for scales and levels, one per element of any other weight.
inline int64_t parameters_of(std::string_view name, int64_t elements) {
  if (name.ends_with(kNf4Codes)) return 2 * elements;
  return is_quantized_name(name) ? 0 : elements;
}

}  // namespace tessera::model
