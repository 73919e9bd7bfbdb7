// Which rank of a run this process is, and to whom it reports: what mpirun, srun and `tessera
// launch` leave in the environment.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "comm/world.h"
#include "launch/heartbeat.h"
#include "tensor/gpu.h"

namespace tessera::cli {

struct RankPlace {
  int rank = 0, ranks = 1;
  std::string host;
};

RankPlace read_rank_place();

// Reports to `tessera launch` where that started this process, and to nobody elsewhere.
std::unique_ptr<launch::Heartbeat> start_heartbeat(const RankPlace& place, const char* version);

// ---- The option --device of verbs that have no run file.

// Returns the device for auto, cpu or cuda; the ranks of a host use different devices. Nothing: the
// CPU. Throws UsageError for any other text, Error if cuda is requested and not available.
std::optional<GpuFeatures> gpu_named(const std::string& word, const comm::World& world);

}  // namespace tessera::cli
