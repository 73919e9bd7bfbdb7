// The rank of this process and the monitor that it reports to, from the environment variables that
// mpirun, srun and `tessera launch` set.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "comm/world.h"
#include "launch/heartbeat.h"
#include "tensor/gpu.h"

namespace tessera::cli {

struct RankInfo {
  int rank = 0, ranks = 1;
  std::string host;
};

RankInfo read_rank_info();

// Throws UsageError if mpirun or srun started several ranks: the command `verb` runs on one.
void require_one_rank(const char* verb);

// Starts the heartbeat to `tessera launch` if it started this process; otherwise the result does
// nothing.
std::unique_ptr<launch::Heartbeat> start_heartbeat(const RankInfo& place, const char* version);

// ---- The option --device of commands that have no run file.

// Returns the GPU for auto, cpu or cuda, or nothing for the CPU. The ranks of a host use different
// GPUs. Throws UsageError for any other text, Error if cuda is requested and not available.
std::optional<GpuFeatures> gpu_named(const std::string& word, const comm::World& world);

}  // namespace tessera::cli
