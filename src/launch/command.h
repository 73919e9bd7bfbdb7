// The command line that starts the ranks. Pure.
#pragma once

#include <string>
#include <vector>

#include "launch/hosts.h"
#include "launch/relay.h"

namespace tessera {

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

}  // namespace tessera
