// Builds the command line that starts the ranks, and parses the launcher's output. All functions
// are pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launch/hosts.h"

namespace tessera::launch {

// ---- Output of the ranks, as mpirun and srun pass it on line by line.

enum class Launcher : uint8_t { kMpirun, kSrun };

struct RankLine {
  int rank = -1;  // -1: output of the launcher itself
  std::string text;
};

// Parses a line such as "[1,5]<stderr>:text" of `mpirun --tag-output`, or "5: text" of `srun
// --label`.
RankLine parse_line(Launcher launcher, std::string_view line);

// Parses a line of the launcher that reports how a rank's process ended. Returns rank -1 for any
// other line. Examples:
//   mpirun noticed that process rank 1 with PID 0 on node n02 exited on signal 9 (Killed).
//   srun: error: n02: task 1: Killed
RankLine parse_ending(Launcher launcher, std::string_view line);

// Returns true for launcher output without information: frames, and the text it prints for every
// failed job.
bool is_noise(std::string_view line);

struct StartOptions {
  Launcher launcher = Launcher::kMpirun;
  int ranks = 1;
  std::vector<Host> hosts;            // mpirun: where to start ranks; empty: on this host
  std::vector<std::string> left_out;  // srun: names of hosts to exclude
  // srun: the interface by which the ranks find each other. Debian's Open MPI supports only pmix.
  std::string mpi = "pmix";
  bool root = false;                 // adds --allow-run-as-root, which Open MPI requires from root
  std::vector<std::string> more;     // further arguments of mpirun or srun
  std::vector<std::string> program;  // the program and its arguments
};

// Returns the command that starts the ranks. Ranks fill one host after the other, so that
// consecutive (tensor-parallel) ranks share a host. They are not bound to cores, because each rank
// manages its own threads. More ranks than cores are allowed, since the user gave the number.
std::vector<std::string> start_command(const StartOptions& options);

// Splits a command line as a shell does: at blanks, except in quotes or after a backslash. Throws
// Error for an unclosed quote.
std::vector<std::string> split_words(const std::string& text);

// Joins arguments to a command line for a shell, and quotes those that need it.
std::string quote_words(const std::vector<std::string>& words);

}  // namespace tessera::launch
