// Where a segment's short-lived values lie in its scratch.
#pragma once

#include "ir/program.h"

namespace tessera {

// Gives every value of the segment without a frame an offset, and the segment its scratch_bytes.
// Where an op may work in place (OpRule::in_place) and its input dies there, output and input share
// their bytes; an input may even lie where the output's frame is.
void layout_scratch(Program& program, Segment& segment, int64_t alignment);

}  // namespace tessera
