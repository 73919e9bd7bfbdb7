// What a checkpoint gives to a piece of a run's state, where the two may be of other sizes.
#pragma once

#include "checkpoint/checkpoint.h"
#include "ir/state/pieces.h"
#include "model/model_config.h"
#include "tensor/tensor.h"

namespace tessera::train {

// Reads into `view`, which holds the box of `piece`. Weights (not what the optimizer keeps) may
// come from tables with another number of rows: the vocabulary's, if theirs has at least this
// model's tokens (rows that only pad become zeros or stay behind), and longer tables of learned
// positions. Throws Error for any other difference of shapes, so that no corner of a larger model
// is taken for a smaller one, as CheckpointReader::read does, and NumericError for a tensor that
// holds NaN or infinity.
void load_piece(checkpoint::CheckpointReader& checkpoint, const StatePiece& piece,
                const model::ModelConfig& model, const TensorView& view);

// ---- Adafactor's means from checkpoints of version 0.1, which has one set of them per packed
// weight.

// If `piece` is the means of the rows or columns of one part of a packed weight, and the checkpoint
// has those of the packed weight instead, reads the part's share into `view`. Rows are selected.
// The columns of all parts begin as the packed ones, times mean(rows of the part) / mean(all rows),
// so that the estimate rows[i] · columns[j] / mean(rows) of every element stays what it was.
// Returns whether that was the case.
bool load_packed_factors(checkpoint::CheckpointReader& checkpoint, const StatePiece& piece,
                         const Program& program, const TensorView& view);

}  // namespace tessera::train
