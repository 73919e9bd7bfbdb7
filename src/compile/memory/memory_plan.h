// The bytes of a program's arena by role.
#pragma once

#include "ir/program.h"

namespace tessera::compile {

// The arena of one rank by role at the call with the most bytes alive: state, and the buffers and
// scratch of that call. `other` is the remainder: batches, and what packing could not use. The
// first five add up to `arena`; `live` is its lower bound.
struct MemoryPlan {
  int64_t weights = 0, optimizer = 0, gradients = 0, activations = 0, other = 0;
  int64_t arena = 0, live = 0;
  // The most bytes that layers save for their backwards at once: saved values and inputs.
  int64_t saved = 0;
  int64_t host = 0;           // the host arena, not included above
  int64_t communicators = 0;  // communicator_count()
};
MemoryPlan memory_plan(const Program& program);

}  // namespace tessera::compile
