// Which rank of a run this process is, and to whom it reports: what mpirun, srun and `tessera
// launch` leave in the environment.
#pragma once

#include <memory>
#include <string>

#include "launch/heartbeat.h"

namespace tessera {

struct RankPlace {
  int rank = 0, ranks = 1;
  std::string host;
};

RankPlace read_rank_place();

// Reports to `tessera launch` where that started this process, and to nobody elsewhere.
std::unique_ptr<Heartbeat> start_heartbeat(const RankPlace& place, const char* version);

}  // namespace tessera
