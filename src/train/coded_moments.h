// Moments in 8 bits (base/moment_code.h) as checkpoints have them, in f32. What is read from f32 is
// quantized again, with the same codes for the same blocks, so a run resumes with the same bits.
#pragma once

#include <map>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "ir/state/local_state.h"
#include "runtime/engine.h"

namespace tessera::train {

// Returns a piece of a checkpoint that computes the moments of a shard with StateShard::scales from
// the engine's memory, a part at a time.
checkpoint::StateTensor decoded_moments(const runtime::Engine& engine, const StateShard& shard);

// Collects loaded moments in f32, and quantizes those of a buffer when all of them are known.
class LoadedMoments {
 public:
  explicit LoadedMoments(const runtime::Engine& engine) : engine_(engine) {}

  // Returns memory for the moments of a shard, in the shape of its box. Shards must be given in the
  // order of local_state(): shards of another group of weights or layer end the earlier ones, whose
  // views are then invalid.
  TensorView view(const StateShard& shard);
  // Quantizes the moments so far. Must be called after the last shard has been read.
  void write();

 private:
  struct Collected {
    StateShard shard;  // one of the buffer
    std::vector<float> moments;
  };

  const runtime::Engine& engine_;
  BufferKindId weights_ = kNone;  // the weights that the moments so far belong to …
  int64_t layer_ = kNone;         // … and their layer
  std::map<BufferKindId, Collected> buffers_;
};

}  // namespace tessera::train
