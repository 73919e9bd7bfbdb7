// The command line that starts the ranks. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launch/hosts.h"

namespace tessera::launch {

// ---- What mpirun and srun pass on from the ranks, line by line. Pure.

enum class Starter : uint8_t { kMpirun, kSrun };

struct RankLine {
  int rank = -1;  // -1: output of the starter itself
  std::string text;
};

// "[1,5]<stderr>:text" of `mpirun --tag-output`, "5: text" of `srun --label`.
RankLine parse_line(Starter starter, std::string_view line);

// Parses a line of the starter that reports how a rank's process ended; else returns rank -1:
//   mpirun noticed that process rank 1 with PID 0 on node n02 exited on signal 9 (Killed).
//   srun: error: n02: task 1: Killed
RankLine parse_ending(Starter starter, std::string_view line);

// True for the starter's own output: frames, and its text for every job that fails.
bool is_noise(std::string_view line);

struct StartOptions {
  Starter starter = Starter::kMpirun;
  int ranks = 1;
  std::vector<Host> hosts;            // mpirun; empty: this one
  std::vector<std::string> left_out;  // srun: names of hosts that are not to be used
  std::string mpi =
      "pmix";         // srun: how the ranks find each other; Debian's Open MPI knows pmix only
  bool root = false;  // Open MPI refuses root unless told
  std::vector<std::string> more;     // further arguments of mpirun or srun
  std::vector<std::string> program;  // with its arguments
};

// Ranks fill one host after the other, so that neighbours (tensor ranks) are nearest; they are not
// bound to cores, because their threads are our matter. More ranks than cores are allowed: -n said
// so.
std::vector<std::string> start_command(const StartOptions& options);

// Splits as a shell would: spaces part words, quotes and backslashes keep them. Throws Error for a
// quote that does not end.
std::vector<std::string> split_words(const std::string& text);

// The same words for a shell, quoted where they need it.
std::string quote_words(const std::vector<std::string>& words);

}  // namespace tessera::launch
