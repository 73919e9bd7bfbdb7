// Keys of config.json about attention: rotary embeddings and sliding windows.
#pragma once

#include <functional>

#include "model/hf_reader.h"

namespace tessera::model {

// The kinds of rotary embedding that a family's config.json may ask for. kPhi3: longrope, also as
// "su" and "yarn".
enum class RopeScalingSupport : uint8_t { kUnscaled, kPhi3, kAll };

// The names that a family's config.json uses for rope_theta and rotary_pct if they are not in
// rope_parameters. nullptr: RoPE applies to the whole head.
struct RotaryKeys {
  const char *theta = "rope_theta", *rotary_pct = nullptr;
};

// transformers 4: `keys` and rope_scaling; 5: all in rope_parameters, which rope_scaling replaces.
// Members of `m` whose keys are absent keep their values. Rejects other kinds by name.
void read_rotary(const HfReader& in, RotaryKeys keys, RopeScalingSupport support, ModelConfig& m);

// Reads an object like rope_scaling; `in` is the whole file; its original_max_position_embeddings
// takes precedence.
void read_rope_scaling(const HfReader& in, const HfReader& rope, RopeScalingSupport support,
                       ModelConfig& m);

// Writes rope_theta and rope_scaling; the latter alone, null where frequencies are unscaled.
void write_rotary(const ModelConfig& m, Tree& out);
Tree rope_scaling_tree(const RopeScalingConfig& scale);

// Returns sliding_window, or `otherwise` if the key is absent; 0 unless use_sliding_window is true.
int64_t read_used_window(const HfReader& in, int64_t otherwise);

// Sets the windows of layers by layer_types, or by `slides` where the file has no such list.
void read_windows(const HfReader& in, int64_t window, const std::function<bool(int64_t)>& slides,
                  ModelConfig& m);

// Does the same for Qwen. Without layer_types, layers from max_window_layers on have the window.
void read_last_windows(const HfReader& in, ModelConfig& m);

// Writes sliding_window and layer_types.
void write_windows(const ModelConfig& m, Tree& out);

// Whether attention of that layer has a window.
bool slides(const ModelConfig& m, int64_t layer);

}  // namespace tessera::model
