// What a program's arena holds, by role.
#pragma once

#include "ir/program.h"

namespace tessera::compile {

// The arena of one rank by what its bytes are for where most of them are alive: state, and the
// frames and scratch of that moment. `other` is what the lines before leave: batches, and what
// packing could not use. The five add up to `arena`; `live` is its lower bound.
struct MemoryPlan {
  int64_t weights = 0, optimizer = 0, gradients = 0, activations = 0, other = 0;
  int64_t arena = 0, live = 0;
  // The most that layers leave to their backwards at once: saved values and inputs.
  int64_t saved = 0;
  int64_t host = 0;           // the host's arena, in none of the lines above
  int64_t communicators = 0;  // communicator_count()
};
MemoryPlan memory_plan(const Program& program);

}  // namespace tessera::compile
