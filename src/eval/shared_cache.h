// Lets decode programs of different batch sizes share one state: the weights, and the cache of keys
// and values. A program with fewer sequences uses a part of the cache.
#pragma once

#include "ir/program.h"

namespace tessera::eval {

// Moves the buffers of `part` so that it can run on the arena of `whole`, a decode program of the
// same model with more sequences. Weights get the offsets that they have in `whole`, and the cache
// of each layer begins at the row of sequence `first`:
//
//   arena of part:  [ state of whole | inputs and logits of part | scratch and other buffers ]
//
// Sequences are those of this rank: data-parallel ranks have different ones, tensor-parallel ranks
// have some heads of each, and pipeline stages the caches of their layers.
//
// REQUIRES: both are programs of this rank, in one layout, without host buffers, and `whole` has at
// least `first` plus the sequences of `part`.
void share_state(Program& part, const Program& whole, int64_t first);

}  // namespace tessera::eval
