// A run file as programs: what is compiled for it, and what memory they need.
#pragma once

#include <memory>

#include "compile/compile.h"
#include "compile/memory_plan.h"
#include "data/batches.h"
#include "runtime/machine.h"
#include "tensor/cpu_features.h"
#include "train/run_config.h"

namespace tessera {

// The fastest policy that trains well on this CPU, where the run file says `auto`.
Precision resolve_precision(Precision asked, const CpuFeatures& cpu);

// Replaces `auto` of run.device and of precision by what `train` uses on this machine.
void resolve_machine(RunConfig& config, const CpuFeatures& cpu);

// Fills sizes that the run file leaves to the tokenizer and the model.
void resolve_sizes(RunConfig& config);

CompileRequest compile_request(const RunConfig& config, Purpose purpose);

// Tokens of a row of the batch, the encoder's and the decoder's.
int64_t row_tokens(const RunConfig& config);

// Which samples which step takes; `rank` of the data ranks.
BatchShape batch_shape(const RunConfig& config, int64_t rank);

// Memory that a run takes outside its arena: libraries, code made at run time, read-ahead buffers.
constexpr int64_t kOutsideBytes = 100'000'000;

// The same of a GPU's memory: the driver's context and code, libraries, graphs. The cluster
// files of GPUs (configs/clusters) have the same three figures. Estimates: not yet measured on a
// GPU.
constexpr int64_t kGpuOutsideBytes = 1 << 30;
constexpr int64_t kNcclBytes = 256 << 20;          // where there are several ranks
constexpr int64_t kCommunicatorBytes = 128 << 20;  // each: staging of sums, and NCCL's buffers
// Returns the memory outside of the arena of a run whose program makes that many communicators, on
// that kind of device.
int64_t outside_bytes(Device device, int64_t communicators);

// The smallest of the machine's memory, its control group's and the process's own limits.
int64_t memory_limit(const CpuFeatures& cpu);

// Throws Error with the parts and with layouts that would fit if the program does not fit in
// `limit` bytes.
void require_memory(const RunConfig& config, const Program& program, int64_t limit,
                    const Target& target);

}  // namespace tessera
