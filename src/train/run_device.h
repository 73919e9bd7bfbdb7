// Resolves the device that a run computes on (run.device), and checks its memory and threads.
#pragma once

#include <memory>
#include <optional>

#include "comm/world.h"
#include "compile/memory/memory_plan.h"
#include "config/run_config.h"
#include "runtime/engine.h"

namespace tessera::train {

struct RunDevice {
  CpuFeatures cpu;
  std::optional<GpuFeatures> gpu;  // none: the run computes on the CPU
  bool tf32 = false;               // run.tf32

  // Returns the bytes that the process may use, if no other process uses the device.
  int64_t memory_limit() const;
  // Returns the bytes that a program needs outside its arena.
  int64_t outside_bytes(const compile::MemoryPlan& m) const;
  // Return the bytes that a program needs of the memory it computes on, and of the host's memory.
  // On a CPU the two are the same.
  int64_t need(const compile::MemoryPlan& m) const;
  int64_t host_need(const compile::MemoryPlan& m) const { return gpu ? m.host : need(m); }
  std::unique_ptr<runtime::PreparedKernels> kernels(int threads) const;
};

// Replaces `auto` in config.run.device by cpu or cuda, and `auto` in the precision. On GPUs each
// rank of a host uses a different device. Throws Error if cuda is set but there is no GPU, or if
// the GPU is too old for the run.
RunDevice resolve_device(config::RunConfig& config, const comm::World& world);

// Throws Error if the run uses FP8 GEMMs and the GPU has no FP8 tensor cores.
void require_card_for(const config::RunConfig& config, const GpuFeatures& card);

// Returns the number of CPU threads per rank if run.threads is 0: its share of the host's cores, or
// all cores that the launcher bound it to, at most OMP_NUM_THREADS.
int64_t threads_for(const CpuFeatures& cpu, const comm::World& world);

// Returns a warning if the ranks of this host together have more threads than cores that they may
// use, else an empty string. Collective.
std::string threads_warning(const CpuFeatures& cpu, comm::World& world, int64_t threads);

// Throws Error on all ranks of a host if the sum of their `need` exceeds `host_bytes`. Collective.
void require_host_memory(comm::World& world, int64_t need, int64_t host_bytes);

// Returns log lines about the planned memory of a run: the device's, and the host's if it offloads.
std::vector<std::string> memory_lines(const compile::MemoryPlan& m, const runtime::Engine& engine,
                                      const RunDevice& device);

// Returns log lines about the device of a run and the transport between its ranks.
std::vector<std::string> device_lines(const runtime::Engine& engine);

// Returns a log line about the device's memory: planned and allocated bytes, and those that are
// used outside the arena. `device` was read before the arena was allocated.
std::string device_memory_line(const runtime::Engine& engine, const GpuFeatures& device);

}  // namespace tessera::train
