// Resolves the automatic values of a run file, and checks the memory that its programs need.
#pragma once

#include <memory>

#include "compile/memory/memory_plan.h"
#include "compile/request.h"
#include "config/run_request.h"
#include "ir/target.h"
#include "runtime/engine.h"
#include "tensor/cpu_features.h"

namespace tessera::train {

// Returns `asked`, or for `auto` the fastest precision on this CPU that trains well.
compile::Precision resolve_precision(compile::Precision asked, const CpuFeatures& cpu);

// Replaces `auto` in run.device and precision by the values that `train` uses on this machine.
void resolve_machine(config::RunConfig& config, const CpuFeatures& cpu);

// Sets the sizes that follow from the tokenizer and the model if the run file omits them. Throws
// Error if the vocabulary size cannot be determined.
void resolve_sizes(config::RunConfig& config);

// Bytes that a run allocates outside its arena: heaps of libraries, generated code, buffers.
constexpr int64_t kOutsideBytes = 100'000'000;

// The same for the memory of a GPU: the driver's context and code, libraries, graphs. The cluster
// files of GPUs (configs/clusters) have the same three numbers. They are estimates, not yet
// measured on a GPU.
constexpr int64_t kGpuOutsideBytes = 1 << 30;
constexpr int64_t kNcclBytes = 256 << 20;          // once, with several ranks
constexpr int64_t kCommunicatorBytes = 128 << 20;  // per communicator: staging and NCCL's buffers
// Returns the bytes outside the arena on this kind of device, for a program with that many
// communicators.
int64_t outside_bytes(config::Device device, int64_t communicators);

// Throws Error if the program does not fit in `limit` bytes. The message begins with `step`, and
// has the memory by kind and settings with which the run would fit.
void require_memory(const config::RunConfig& config, const Program& program, int64_t limit,
                    const Target& target, const char* step = "this run");

}  // namespace tessera::train
