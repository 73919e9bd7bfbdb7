// One attempt at a run: starts the ranks, passes on what they print, watches them, and ends them
// all when one is lost. `restart.h` decides what comes after.
#pragma once

#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "launch/command.h"
#include "launch/socket.h"
#include "launch/watch.h"

namespace tessera::launch {

struct AttemptOptions {
  Starter starter = Starter::kMpirun;
  std::vector<std::string> command;          // from start_command
  std::vector<std::string> addresses;        // at which ranks reach this process
  Interfaces interfaces = Interfaces::kAll;  // on which it listens for them
  WatchOptions watch;
  std::function<double()> now_s;
  // How many times the user asked to stop: once, the ranks finish their step, save and leave;
  // twice, they end at once.
  std::function<int()> stop_requests;
  std::FILE* out = stdout;  // what ranks print; lines of others than rank 0 begin with their number
  std::FILE* err = stderr;
  Path rank_files;  // a folder: the lines of each rank go to rank-N.txt there as well
};

struct AttemptResult {
  std::optional<Verdict> verdict;  // none: every rank left in order
  std::string report;              // of the verdict
  std::vector<std::string> hosts;  // of the ranks
  int64_t step = 0;                // the latest that any rank has begun
  bool stopped = false;            // because the user asked
  double ending_s = 0;             // from the verdict until all that was started here had ended
};

AttemptResult attempt(const AttemptOptions& options);

}  // namespace tessera::launch
