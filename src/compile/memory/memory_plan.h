// The bytes of a program's arena by role.
#pragma once

#include <vector>

#include "base/enum_array.h"
#include "ir/program.h"

namespace tessera::compile {

enum class MemoryUse : uint8_t { kWeights, kOptimizer, kGradients, kActivations, kOther };
constexpr size_t count_of(MemoryUse) { return static_cast<size_t>(MemoryUse::kOther) + 1; }
constexpr const char* enum_names(MemoryUse) {
  return "weights|optimizer|gradients|activations|other";
}

// A part of the arena and its use at the call with the most bytes alive.
struct UsedRange {
  MemoryUse use = MemoryUse::kOther;
  int64_t offset = 0, bytes = 0;
};
// Returns the ranges of state, buffers and scratch at that call. They do not overlap; the rest of
// the arena is not used there.
std::vector<UsedRange> used_ranges(const Program& program);

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
// Returns the memory of two programs that share their arenas: the plan with the larger arena, with
// the larger host arena.
MemoryPlan larger_of(const MemoryPlan& a, const MemoryPlan& b);

}  // namespace tessera::compile
