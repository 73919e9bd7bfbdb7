// One attempt at a run: starts the ranks, passes on their output, monitors them, and ends all of
// them if one fails. restart.h decides what happens next.
#pragma once

#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "launch/command.h"
#include "launch/rank_monitor.h"
#include "launch/socket.h"

namespace tessera::launch {

struct AttemptOptions {
  Launcher launcher = Launcher::kMpirun;
  std::vector<std::string> command;          // from start_command
  std::vector<std::string> addresses;        // where the ranks can reach this process
  Interfaces interfaces = Interfaces::kAll;  // where this process listens for ranks
  RankMonitorOptions monitor;
  std::function<double()> now_s;
  // Returns how many times the user asked to stop. After the first request the ranks finish their
  // step, save and exit; after the second they end at once.
  std::function<int()> stop_requests;
  std::FILE* out = stdout;  // output of the ranks, with a prefix "rank N: " except for rank 0
  std::FILE* err = stderr;
  Path state_file;  // file with the states of the ranks (rank_states.h); empty: not written
  Path rank_files;  // directory for a copy of each rank's output in rank-N.txt; empty: no copies
};

struct AttemptResult {
  std::optional<Failure> failure;  // the failure; none if all ranks exited normally
  std::string report;              // describes the failure
  std::vector<std::string> hosts;  // per rank
  int64_t step = 0;                // the latest step that any rank began
  bool stopped = false;            // true if the user asked to stop
  double ending_s = 0;             // seconds from the decision until all processes had ended
};

// Runs the command to its end. Throws Error if it cannot be started.
AttemptResult attempt(const AttemptOptions& options);

}  // namespace tessera::launch
