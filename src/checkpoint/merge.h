// Merges LoRA adapters into the weights: W + alpha / rank · B A. Also averages checkpoints.
#pragma once

#include <span>
#include <string>

#include "checkpoint/checkpoint.h"

namespace tessera::checkpoint {

constexpr const char* kAdapterA = ".lora_a";  // replaces ".weight" at the end of a weight's name
constexpr const char* kAdapterB = ".lora_b";

// Returns true if a checkpoint contains adapters.
bool has_adapters(const CheckpointReader& checkpoint);

struct Merged {
  int64_t adapters = 0, tensors = 0, parameters = 0;
};

// Writes a checkpoint of merged weights to `out`, in f32, without optimizer state. Rank and alpha
// are those in the checkpoint's header. Throws Error if there are no adapters, if their shapes do
// not match the weights, or if `out` exists.
Merged merge_adapters(const Path& checkpoint, const Path& out, const std::string& version);

// ---- The mean of several checkpoints of one run (Polyak averaging), which often has a lower loss
// than the last of them.

struct Averaged {
  int64_t tensors = 0, parameters = 0;
};

// Writes the mean of each weight to `out`, computed in f64 and stored in f32, without optimizer
// state. The header is that of the checkpoint with the highest step. Reads and writes a slab of one
// tensor at a time. Throws Error if the checkpoints have different models or tensors, if there are
// fewer than two, or if `out` exists.
Averaged average_checkpoints(std::span<const Path> checkpoints, const Path& out,
                             const std::string& version);

}  // namespace tessera::checkpoint
