// What `mpirun -n N tessera doctor` measures and says: how fast each rank multiplies, how fast each
// pair of ranks exchanges messages, and which rank or host is slower than its like.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/world.h"
#include "tensor/cpu_features.h"

namespace tessera::measure {

// Who exchanges with whom in each round: every rank at most once a round. Up to 32 ranks every pair
// meets once; beyond, partners are 1, 2, 4, … apart, which touches every host's links.
using Round = std::vector<std::pair<int64_t, int64_t>>;
std::vector<Round> meeting_rounds(int64_t ranks);

struct PairRate {
  int64_t a = 0, b = 0;
  double bytes_per_s = 0;  // in one direction
};

struct RankRates {
  std::vector<std::string> hosts;  // of each rank
  std::vector<double> flops;       // of each rank, all measured at the same time
  std::vector<PairRate> pairs;
};

// On all ranks at once; every rank gets the same answer. Some 0.5 s and 20 ms a round.
RankRates measure_ranks(comm::World& world, const CpuFeatures& cpu, int threads);

// "rank 3 on n02 multiplies at 41 GF/s, the median is 160": ranks below 70 % of the median; hosts
// whose links to others, and pairs within a host that, reach less than half of the median of their
// like. Empty: all alike.
std::vector<std::string> outliers(const RankRates& rates);

// Lowest, median and highest of each kind, a line each.
std::vector<std::string> summary_of(const RankRates& rates);

}  // namespace tessera::measure
