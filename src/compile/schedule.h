// Segments → frames and calls in issue order, for one rank and one stage.
//   before  a program with kinds and segments
//   after   every call of the step, with the frames it works on; no offsets but those of state
#pragma once

#include "compile/expand.h"

namespace tessera {

// The order of a training step:
//   clear · pack · for each micro-batch (forward, head, backward) · squares · clip · update
// and of the other programs: clear · pack · forward of one micro-batch.
Program schedule(Expanded expanded, const CompileRequest& request, const Recompute& recompute,
                 const Target& target);

}  // namespace tessera
