// simulate(programs, machine, software): how long the compiled step takes, and why.
//
// Time is counted in whole nanoseconds. Each stage's ranks are one class: they run one program on
// like devices. A call starts when the call before it on its queue, all calls it comes `after`, and
// for a message or a collective over several stages all partners are ready; it takes what its ops
// take (op_time.h), its collectives what the links take (links.h), and at least its launches.
// Collectives inside a segment are exposed; others run beside computation. Where the software does
// not overlap them, collectives and sends stand on the compute queue. A step begins when the one
// before has ended everywhere, as in the runtime, so `before_step` never waits.
//
// Pure and exact for what it is given: no sampling, no extrapolation. The cost is that of walking
// every call of every stage once; durations are computed once a segment.
#pragma once

#include <vector>

#include "ir/program.h"
#include "plan/hardware.h"
#include "plan/prediction.h"
#include "plan/software.h"

namespace tessera::plan {

// One program a stage, in order, as compile_stages() gives them.
Prediction simulate(const std::vector<Program>& stages, const Hardware& hardware,
                    const Software& software);

// What each call did, for drawing and for tests: [stage][call].
struct CallTime {
  int64_t start_ns = 0, finish_ns = 0;
};
struct Timeline {
  int64_t step_ns = 0;
  std::vector<IdVector<CallId, CallTime>> calls;
};
Timeline timeline_of(const std::vector<Program>& stages, const Hardware& hardware,
                     const Software& software);

}  // namespace tessera::plan
