// The device that a run computes on: run.device of the run file, made definite.
#pragma once

#include <memory>
#include <optional>

#include "comm/world.h"
#include "compile/memory/memory_plan.h"
#include "config/run_config.h"
#include "runtime/machine.h"

namespace tessera::train {

struct RunDevice {
  CpuFeatures cpu;
  std::optional<GpuFeatures> gpu;  // without: the run computes on the CPU
  bool tf32 = false;               // run.tf32

  // What the process may take for its arena and beside it.
  int64_t memory_limit() const;                               // were it alone on its host
  int64_t outside_bytes(const compile::MemoryPlan& m) const;  // in addition to the arena
  // What a program takes of the memory it computes on, and of the host's; on the CPU they are one.
  int64_t need(const compile::MemoryPlan& m) const;
  int64_t host_need(const compile::MemoryPlan& m) const { return gpu ? m.host : need(m); }
  std::unique_ptr<runtime::PreparedKernels> kernels(int threads) const;
};

// Writes cpu or cuda into config.run.device, and a precision in place of auto. On GPUs every rank
// of a host takes another of its devices. Throws Error where cuda was asked for and is not there,
// or is too old for the run.
RunDevice resolve_device(config::RunConfig& config, const comm::World& world);

// Throws Error where the card has not what the run asks for: tensor cores for eight bits.
void require_card_for(const config::RunConfig& config, const GpuFeatures& card);

// Returns how many CPU threads a rank uses where run.threads is 0: its share of the host's cores,
// or all cores that its launcher bound it to, at most OMP_NUM_THREADS.
int64_t threads_for(const CpuFeatures& cpu, const comm::World& world);

// Returns a warning if the ranks of this host have more threads in all than the cores that they may
// use; empty if they have not. Collective.
std::string threads_warning(const CpuFeatures& cpu, comm::World& world, int64_t threads);

// All ranks call it with what each needs: the ranks of one host need that together of it. Throws
// Error with both figures on every rank of a host that has less.
void require_host_memory(comm::World& world, int64_t need, int64_t host_bytes);

// What a run is going to take, by its plan, one line for each memory.
std::vector<std::string> memory_lines(const compile::MemoryPlan& m, const runtime::Machine& machine,
                                      const RunDevice& device);

// Returns log lines about the device of a run and the transport between its ranks.
std::vector<std::string> device_lines(const runtime::Machine& machine);

// Returns a log line about the device's memory: planned and allocated bytes, and those that are
// used outside the arena. `device` was read before the arena was allocated.
std::string device_memory_line(const runtime::Machine& machine, const GpuFeatures& device);

}  // namespace tessera::train
