// The memory this process may use: the minimum of physical memory, the limits of its control
// groups, and its resource limits.
#include "tensor/memory_limits.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "tensor/control_groups.h"

namespace tessera {
namespace {

constexpr int64_t kNoLimit = INT64_MAX;

int64_t limit_of(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return kNoLimit;
  const bool none =
      limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > static_cast<rlim_t>(kNoLimit);
  return none ? kNoLimit : static_cast<int64_t>(limit.rlim_cur);
}

// Returns the sum of lines such as "VmExe:     8532 kB" of /proc/self/status.
int64_t status_bytes(const std::vector<std::string>& names) {
  std::ifstream in("/proc/self/status");
  int64_t bytes = 0;
  for (std::string line; std::getline(in, line);)
    for (const std::string& name : names)
      if (line.starts_with(name + ':')) bytes += std::stoll(line.substr(name.size() + 1)) * 1024;
  return bytes;
}

}  // namespace

int64_t memory_limit() {
  int64_t bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  for (const std::string& folder : group_folders("memory"))
    for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {
      const auto limit = read_first_line(folder + name);
      if (limit && *limit != "max") bytes = std::min(bytes, parse_size(*limit));
    }
  bytes = std::min(bytes, limit_of(RLIMIT_DATA));
  const int64_t addresses = limit_of(RLIMIT_AS);
  if (addresses == kNoLimit) return bytes;
  // ulimit -v counts addresses, of which code, libraries and reserved heaps are not for data.
  const int64_t not_for_data = status_bytes({"VmExe", "VmLib"}) + kReservedAddresses;
  return std::min(bytes, std::max<int64_t>(addresses - not_for_data, 0));
}

int64_t free_address_space() {
  const int64_t limit = limit_of(RLIMIT_AS);
  return limit == kNoLimit ? kNoLimit : limit - status_bytes({"VmSize"});
}

void keep_one_heap_where_addresses_are_limited() {
  if (limit_of(RLIMIT_AS) != kNoLimit) mallopt(M_ARENA_MAX, 1);
}

}  // namespace tessera
