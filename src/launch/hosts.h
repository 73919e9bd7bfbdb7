// The machines of a run, as mpirun's host files name them. Pure.
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

int slots(std::span<const Host> hosts);
std::string host_list(std::span<const Host> hosts);  // n01:4,n02:4

// Ranks fill one host after the other; the index of the one that has this rank.
size_t host_of(std::span<const Host> hosts, int rank);

}  // namespace tessera::launch
