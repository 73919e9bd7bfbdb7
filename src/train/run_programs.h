// A run file as programs: what is compiled for it, and what memory they need.
#pragma once

#include <memory>

#include "compile/memory/memory_plan.h"
#include "compile/request.h"
#include "config/run_request.h"
#include "ir/target.h"
#include "runtime/machine.h"
#include "tensor/cpu_features.h"

namespace tessera::train {

// The fastest policy that trains well on this CPU, where the run file says `auto`.
compile::Precision resolve_precision(compile::Precision asked, const CpuFeatures& cpu);

// Replaces `auto` of run.device and of precision by what `train` uses on this machine.
void resolve_machine(config::RunConfig& config, const CpuFeatures& cpu);

// Fills sizes that the run file leaves to the tokenizer and the model.
void resolve_sizes(config::RunConfig& config);

// Memory that a run allocates outside its arena: heaps of libraries, generated code, buffers.
constexpr int64_t kOutsideBytes = 100'000'000;

// The same of a GPU's memory: the driver's context and code, libraries, graphs. The cluster
// files of GPUs (configs/clusters) have the same three figures. Estimates: not yet measured on a
// GPU.
constexpr int64_t kGpuOutsideBytes = 1 << 30;
constexpr int64_t kNcclBytes = 256 << 20;          // where there are several ranks
constexpr int64_t kCommunicatorBytes = 128 << 20;  // each: staging of sums, and NCCL's buffers
// Returns the memory outside of the arena of a run whose program makes that many communicators, on
// that kind of device.
int64_t outside_bytes(config::Device device, int64_t communicators);

// Throws Error with the parts and with layouts that would fit if the program does not fit in
// `limit` bytes.
void require_memory(const config::RunConfig& config, const Program& program, int64_t limit,
                    const Target& target);

}  // namespace tessera::train
