// The measurements of `mpirun -n N tessera doctor`: the matrix rate of each rank, the bandwidth
// between pairs of ranks, and the ranks and hosts that are slower than their peers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/world.h"
#include "tensor/cpu_features.h"

namespace tessera::measure {

// Pairs of ranks that exchange messages at the same time. No rank is in two pairs of a round.
using Round = std::vector<std::pair<int64_t, int64_t>>;
// Returns the rounds to measure. With at most 32 ranks they contain every pair once; with more,
// pairs at distances 1, 2, 4, …, which use the links of every host.
std::vector<Round> meeting_rounds(int64_t ranks);

struct PairRate {
  int64_t a = 0, b = 0;
  double bytes_per_s = 0;  // in one direction
};

struct RankRates {
  std::vector<std::string> hosts;  // per rank
  std::vector<double> flops;       // FLOP/s per rank, all measured at the same time
  std::vector<PairRate> pairs;
};

// Measures all ranks and pairs. Collective; all ranks receive the same result. It takes about 0.5
// s, and 20 ms per round.
RankRates measure_ranks(comm::World& world, const CpuFeatures& cpu, int threads);

// Describes what is slow, such as "rank 3 on n02 multiplies at 41 GF/s, the median is 160": ranks
// below 70 % of the median matrix rate, hosts whose links to other hosts are below half of the
// median of all hosts, and pairs within a host below half of the median of such pairs. Returns an
// empty list if nothing is slow.
std::vector<std::string> outliers(const RankRates& rates);

// Returns the lowest, highest and median rate of each kind, one line per kind.
std::vector<std::string> summary_of(const RankRates& rates);

}  // namespace tessera::measure
