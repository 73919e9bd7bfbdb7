// Segments → frames and calls in issue order, for one stage.
//   before  a program with kinds and segments
//   after   every call of the step, with the frames it works on; no offsets but those of state
//
// A training step:
//   clear · pack · the pipeline's forwards and backwards with their messages · squares · clip ·
//   update
// and of the other programs: clear · pack · forward of one micro-batch.
//
// Issue orders of all stages are restrictions of one global order: an action stands at the time it
// starts where messages are free, a message at the time its producer finishes, on both ends, before
// the actions of that time. So every wait points backward in one order and none can form a cycle.
#pragma once

#include "compile/stage_share.h"

namespace tessera {

// `expanded` gives its program away; its blocks and groups stay.
Program schedule(Expanded& expanded, const CompileRequest& request, const Recompute& recompute,
                 const Target& target, const StageShare& share);

}  // namespace tessera
