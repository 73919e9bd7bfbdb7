// What a program's arena holds, by role.
#pragma once

#include "ir/program.h"

namespace tessera {

// Bytes of one rank. Weights, optimizer, gradients and other state are exact; activations are the
// rest of the arena: all frames of micro-batches and scratch, as tightly as they were packed.
struct MemoryPlan {
  int64_t weights = 0, optimizer = 0, gradients = 0, activations = 0, other = 0;
  int64_t arena = 0, live = 0;
};
MemoryPlan memory_plan(const Program& program);

}  // namespace tessera
