// A run file as programs: what is compiled for it, and what memory they need.
#pragma once

#include <memory>

#include "compile/compile.h"
#include "runtime/machine.h"
#include "tensor/cpu_features.h"
#include "train/run_config.h"

namespace tessera {

// The fastest policy that trains well on this CPU, where the run file says `auto`.
Precision resolve_precision(Precision asked, const CpuFeatures& cpu);

// Fills sizes that the run file leaves to the tokenizer and the model.
void resolve_sizes(RunConfig& config);

CompileRequest compile_request(const RunConfig& config, Purpose purpose);

// The arena by what its bytes are for where most of them are alive: state, and the frames and
// scratch of that moment. `other` is what the lines before leave: batches, and what packing could
// not use. The five add up to `arena`; `live` is its lower bound.
struct MemoryPlan {
  int64_t weights = 0, optimizer = 0, gradients = 0, activations = 0, other = 0;
  int64_t arena = 0, live = 0;
};
MemoryPlan memory_plan(const Program& program);

// Memory that a run takes outside its arena: libraries, code made at run time, read-ahead buffers.
constexpr int64_t kOutsideBytes = 100'000'000;

// The smallest of the machine's memory, its control group's and the process's own limits.
int64_t memory_limit(const CpuFeatures& cpu);

// Throws Error with the parts and with layouts that would fit if the program does not fit in
// `limit` bytes.
void require_memory(const RunConfig& config, const Program& program, int64_t limit,
                    const Target& target);

}  // namespace tessera
