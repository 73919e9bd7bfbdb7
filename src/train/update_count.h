// The number of updates that a run has made, as its checkpoints keep it. Steps that fp16 skipped
// are not updates.
#pragma once

#include "checkpoint/checkpoint.h"

namespace tessera {

// Returns the number of updates of the run that wrote the checkpoint. Versions before 0.2 stored
// the number of skipped steps instead.
int64_t updates_before(const CheckpointHeader& header);

void save_updates(int64_t updates, Tree& state);

}  // namespace tessera
