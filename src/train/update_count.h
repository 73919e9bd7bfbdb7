// The number of updates that a run has made, as its checkpoints keep it. Steps that fp16 skipped
// are not updates.
#pragma once

#include "checkpoint/checkpoint.h"

namespace tessera {

// Of the run that wrote the checkpoint. Versions before 0.2 stored no such number, but the steps
// that were skipped.
int64_t updates_before(const CheckpointHeader& header);

void save_updates(int64_t updates, Tree& state);

}  // namespace tessera
