// What mpirun and srun pass on from the ranks, line by line. Pure.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

enum class Starter : uint8_t { kMpirun, kSrun };

struct RankLine {
  int rank = -1;  // -1: the starter's own words
  std::string text;
};

// "[1,5]<stderr>:text" of `mpirun --tag-output`, "5: text" of `srun --label`.
RankLine parse_line(Starter starter, std::string_view line);

// Parses a line of the starter that reports how a rank's process ended; else returns rank -1:
//   mpirun noticed that process rank 1 with PID 0 on node n02 exited on signal 9 (Killed).
//   srun: error: n02: task 1: Killed
RankLine parse_ending(Starter starter, std::string_view line);

// Of the starter's own words, frames and what is said of every job that ends badly.
bool is_noise(std::string_view line);

}  // namespace tessera
