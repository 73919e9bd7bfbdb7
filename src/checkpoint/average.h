// The mean of checkpoints of one run, which often scores better than the last of them (HLAT, Polyak
// averaging at the end of a run).
#pragma once

#include <span>
#include <string>

#include "checkpoint/checkpoint.h"

namespace tessera {

struct Averaged {
  int64_t tensors = 0, parameters = 0;
};

// Writes to `out` the mean of each weight, computed in double precision and stored in f32, without
// the optimizer's state; all else as in the checkpoint of the last step. Reads and writes a slab of
// a tensor at a time. Throws Error where the checkpoints have other models or tensors, there are
// fewer than two, or `out` exists.
Averaged average_checkpoints(std::span<const Path> checkpoints, const Path& out,
                             const std::string& version);

}  // namespace tessera
