// Where a segment's short-lived values lie in its scratch.
#pragma once

#include "ir/program.h"

namespace tessera {

// Gives every value of the segment without a frame an offset, and the segment its scratch_bytes.
// Two values share bytes only if queues and Op::after let every op that touches one end before any
// that touches the other starts, so it runs after find_op_waits. Where an op may work in place
// (OpRule::in_place) and all others that touch its input come before it, output and input share
// their bytes; an input may even be where the output's frame is.
void layout_scratch(Program& program, Segment& segment, int64_t alignment);

}  // namespace tessera
