// Adapters added into the weights beside which they were trained: W + alpha / rank · B A.
#pragma once

#include <span>
#include <string>

#include "checkpoint/checkpoint.h"

namespace tessera::checkpoint {

constexpr const char* kAdapterA = ".lora_a";  // behind the weight's name without ".weight"
constexpr const char* kAdapterB = ".lora_b";

// Whether a checkpoint holds adapters, which a model without them would leave out.
bool has_adapters(const CheckpointReader& checkpoint);

struct Merged {
  int64_t adapters = 0, tensors = 0, parameters = 0;
};

// Writes to `out` a checkpoint of plain weights, in f32, without the optimizer's state. Rank and
// alpha are those of the run, in the checkpoint's header. Throws Error where there are no adapters,
// their shapes do not fit, or `out` exists.
Merged merge_adapters(const Path& checkpoint, const Path& out, const std::string& version);

// ---- The mean of checkpoints of one run, which often scores better than the last of them (HLAT,
// Polyak averaging at the end of a run).

struct Averaged {
  int64_t tensors = 0, parameters = 0;
};

// Writes to `out` the mean of each weight, computed in double precision and stored in f32, without
// the optimizer's state; all else as in the checkpoint of the last step. Reads and writes a slab of
// a tensor at a time. Throws Error where the checkpoints have other models or tensors, there are
// fewer than two, or `out` exists.
Averaged average_checkpoints(std::span<const Path> checkpoints, const Path& out,
                             const std::string& version);

}  // namespace tessera::checkpoint
