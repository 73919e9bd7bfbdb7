// Segments → frames and calls in issue order, for one stage.
//   before  a program with kinds and segments
//   after   every call of the step, with the frames it works on; no offsets but those of state
//
// A training step:
//   clear · pack · the pipeline's forwards and backwards with their messages · squares · clip ·
//   update
// and of the other programs: clear · pack · forward of one micro-batch.
//
// Actions and messages in the one order of all stages (issue_order.h).
#pragma once

#include "compile/context.h"
#include "compile/lower/expanded.h"
#include "compile/schedule/stage_share.h"

namespace tessera {

// `expanded` gives its program away; its blocks and groups stay.
Program schedule(Expanded& expanded, const Context& context, const StageShare& share);

}  // namespace tessera
