// What a checkpoint gives to a piece of a run's state, where the two may be of other sizes.
#pragma once

#include "checkpoint/checkpoint.h"
#include "ir/state/pieces.h"
#include "model/model_config.h"
#include "tensor/tensor.h"

namespace tessera {

// Reads into `view`, which holds the box of `piece`. Weights (not what the optimizer keeps) may
// come from tables with another number of rows: the vocabulary's, if theirs has at least this
// model's tokens (rows that only pad become zeros or stay behind), and longer tables of learned
// positions. Throws Error for any other difference of shapes, so that no corner of a larger model
// is taken for a smaller one, as CheckpointReader::read does, and NumericError for a tensor that
// holds NaN or infinity.
void load_piece(CheckpointReader& checkpoint, const StatePiece& piece, const ModelConfig& model,
                const TensorView& view);

}  // namespace tessera
