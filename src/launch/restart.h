// Decides after a failure whether the run restarts, when, and with how many ranks. All functions
// are pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/hosts.h"
#include "launch/rank_monitor.h"

namespace tessera::launch {

// How an attempt ended.
struct AttemptEnd {
  Failure failure;
  std::string report;
};

struct RestartOptions {
  int limit = 0;                 // attempts after the first
  double pause_s = 5;            // delay before the first restart
  double longest_pause_s = 300;  // upper limit of the delay
};

struct Restart {
  bool again = false;
  double pause_s = 0;
  std::string why;  // the reason if the run does not restart although restarts are left
};

// Decides whether to restart after the last of these attempts. The delay doubles with each
// consecutive failure without progress. Not retried are disagreements between ranks, errors before
// the first step, numeric failures (kNumericExitCode: the same computation would give the same
// numbers), and the same error at the same step as in the attempt before.
Restart after_failure(const RestartOptions& options, const std::vector<AttemptEnd>& ends);

// The parts of the batch and the layout that limit the choice of fewer ranks.
struct JobSize {
  int64_t global = 1, micro = 1;
  int64_t model_ranks = 1;  // ranks that hold one copy of the model: tensor × pipeline
  int64_t zero_group = 0;   // layout.zero_group, which must divide the data axis; 0: no groups
};

// Returns the largest degree of data parallelism on at most `ranks` ranks that divides the batch,
// or nothing if there is none.
std::optional<int64_t> largest_data(int64_t ranks, const JobSize& job);

struct RankHosts {
  int ranks = 1;
  std::vector<Host> hosts;            // empty: this host, or those of the SLURM job
  std::vector<std::string> left_out;  // excluded hosts, by the names that the ranks reported
  int64_t data = 0;                   // degree of data parallelism; 0: the run file's
};

// Returns the ranks and hosts without the hosts of the failed ranks, or with fewer ranks on the
// same hosts if no other host is left. `rank_hosts` is the host that each rank reported. Returns
// nothing if no layout fits.
std::optional<RankHosts> smaller(const RankHosts& world, const Failure& failure,
                                 const std::vector<std::string>& rank_hosts, const JobSize& job);

}  // namespace tessera::launch
