// Loads shards of a run's state from a checkpoint, whose tables may have other sizes.
#pragma once

#include "checkpoint/checkpoint.h"
#include "ir/state/local_state.h"
#include "model/model_config.h"
#include "tensor/tensor.h"

namespace tessera::train {

// Reads the box of `shard` into `view`. Weights (but not optimizer state) may come from tables with
// another number of rows: vocabulary tables with at least this model's tokens (missing padding rows
// become zeros, and surplus rows are ignored), and longer tables of learned positions. Throws Error
// for any other difference of shapes, so that a part of a larger model is never loaded as a smaller
// one. Also throws the errors of CheckpointReader::read, and NumericError for a tensor that
// contains NaN or infinity.
void load_shard(checkpoint::CheckpointReader& checkpoint, const StateShard& shard,
                const model::ModelConfig& model, const TensorView& view);

// ---- Adafactor's factored moments from checkpoints of version 0.1, which stored one set per
// packed weight.

// If `shard` has the row or column means of one part of a packed weight, and the checkpoint has
// those of the packed weight instead, derives the part's means, writes them to `view` and returns
// true; else returns false. Row means are selected. Column means are those of the packed weight
// times mean(rows of the part) / mean(all rows), so that the estimate rows[i] · columns[j] /
// mean(rows) of every element is unchanged.
bool load_packed_factors(checkpoint::CheckpointReader& checkpoint, const StateShard& shard,
                         const Program& program, const TensorView& view);

}  // namespace tessera::train
