// The frames of a stage's state, one after the other at the front of the arena.
#pragma once

#include "compile/schedule/call_list.h"
#include "compile/schedule/stage_blocks.h"

namespace tessera {

// In the order of the kinds, logits and batches last: programs that differ in the number of tokens
// or micro-batches agree on all before them. Offsets are multiples of `alignment`.
void add_state(Expanded& expanded, const StageBlocks& own, int64_t microbatches, int64_t alignment,
               CallList& calls);

}  // namespace tessera
