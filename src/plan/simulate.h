// simulate(programs, machine, software) predicts the time of the compiled step and its breakdown.
//
// Time is counted in whole nanoseconds. The ranks of a stage run one program on equal devices, so
// one of them stands for all. A call starts when the previous call on its queue and all calls in
// its `after` have ended, and, for a message or a collective over several stages, when all partners
// are ready. Its duration is that of its ops (op_time.h) and collectives (links.h), and at least
// that of its launches. Collectives inside a segment are exposed; others overlap computation. If
// the software does not overlap them, collectives and sends are on the compute queue. A step begins
// after the previous step has ended on all ranks, as in the runtime, so `before_step` never waits.
//
// The simulation is a pure function of its inputs and uses no sampling or extrapolation. It visits
// every call of every stage once; durations are computed once per segment.
#pragma once

#include <vector>

#include "ir/program.h"
#include "plan/hardware.h"
#include "plan/prediction.h"
#include "plan/software.h"

namespace tessera::plan {

// Simulates one step. `stages` has one program per stage, as compile_stages() returns them.
Prediction simulate(const std::vector<Program>& stages, const Hardware& hardware,
                    const Software& software);

// Sets the memory of a stage, and its peak from it.
void set_memory(StagePrediction& stage, const compile::MemoryPlan& memory, const DeviceFigures& d);

// Start and finish of each call, for rendering and for tests.
struct CallTime {
  int64_t start_ns = 0, finish_ns = 0;
};
struct Timeline {
  int64_t step_ns = 0;
  std::vector<IdVector<CallId, CallTime>> calls;  // [stage][call]
};
Timeline timeline_of(const std::vector<Program>& stages, const Hardware& hardware,
                     const Software& software);

}  // namespace tessera::plan
