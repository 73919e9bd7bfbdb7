// The hosts of a run, in the syntax of mpirun's host files. All functions are pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::launch {

struct Host {
  std::string name;
  int slots = 1;  // ranks that may run there
};

// Reads one host per line: "n01", "n01 slots=4" or "n01:4"; '#' begins a comment. The slots of a
// host that is listed more than once add up, as mpirun does. `source` names the file in errors.
// Throws Error for anything else and for a file without hosts.
std::vector<Host> parse_hosts(std::string_view text, const std::string& source);

int slots(std::span<const Host> hosts);              // the sum over all hosts
std::string host_list(std::span<const Host> hosts);  // n01:4,n02:4

// Returns the index of the host that has this rank, if ranks fill one host after the other. Ranks
// beyond all slots are on the last host.
size_t host_of(std::span<const Host> hosts, int rank);

}  // namespace tessera::launch
