// Adafactor's means from checkpoints of version 0.1, which has one set of them per packed weight.
#pragma once

#include "checkpoint/checkpoint.h"
#include "ir/state/pieces.h"
#include "tensor/tensor.h"

namespace tessera {

// If `piece` is the means of the rows or columns of one part of a packed weight, and the checkpoint
// has those of the packed weight instead, reads the part's share into `view`. Rows are selected.
// The columns of all parts begin as the packed ones, times mean(rows of the part) / mean(all rows),
// so that the estimate rows[i] · columns[j] / mean(rows) of every element stays what it was.
// Returns whether that was the case.
bool load_packed_factors(CheckpointReader& checkpoint, const StatePiece& piece,
                         const Program& program, const TensorView& view);

}  // namespace tessera
