// What happens after a loss: again or not, how soon, and with how many ranks. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/hosts.h"
#include "launch/watch.h"

namespace tessera::launch {

// How an attempt ended.
struct AttemptEnd {
  Verdict verdict;
  std::string report;
};

struct RestartOptions {
  int limit = 0;       // attempts after the first
  double pause_s = 5;  // before the first restart
  double longest_pause_s = 300;
};

struct Restart {
  bool again = false;
  double pause_s = 0;
  std::string why;  // where it does not go on although restarts are left
};

// Twice the pause for each loss in a row without progress. Not again: what the ranks disagree on,
// an error before the first step, a numeric failure (kNumericExitCode: the same computation would
// give the same numbers), and the same error at the same step as the time before.
Restart after_loss(const RestartOptions& options, const std::vector<AttemptEnd>& ends);

// The batch and the layout, as far as fewer ranks matter.
struct JobSize {
  int64_t global = 1, micro = 1;
  int64_t model_ranks = 1;  // ranks that hold one copy of the model: tensor × pipeline
  int64_t zero_group = 0;   // layout.zero_group: it must divide the data axis; 0: no groups
};

// The largest data axis on at most `ranks` ranks that divides the batch; none fits: nothing.
std::optional<int64_t> largest_data(int64_t ranks, const JobSize& job);

struct RankHosts {
  int ranks = 1;
  std::vector<Host> hosts;            // empty: this one, or SLURM's
  std::vector<std::string> left_out;  // hosts by the names the ranks gave
  int64_t data = 0;                   // the data axis; 0: as the run file says
};

// Without the hosts of the lost ranks; where there is only one host, with fewer ranks on it.
// `rank_hosts`: the host of each rank, as it said. Nothing where no layout is left.
std::optional<RankHosts> smaller(const RankHosts& world, const Verdict& verdict,
                                 const std::vector<std::string>& rank_hosts, const JobSize& job);

}  // namespace tessera::launch
