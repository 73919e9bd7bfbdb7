// The last part of place: which calls a call waits for.
#pragma once

#include "ir/program.h"

namespace tessera {

// Sets `after` and `before_step` of all calls: the last call of each other queue that touches the
// same bytes, one of the two writing, unless another wait covers it. Offsets must be final.
void find_waits(Program& p);

}  // namespace tessera
