// The memory this process may use: the minimum of physical memory, the limits of its control
// groups, and its resource limits. The control groups are those of /proc/self/cgroup and their
// ancestors up to the root: a limit of any ancestor applies.
#include "tensor/process_limits.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tessera {
namespace {

constexpr int64_t kNoLimit = INT64_MAX;

int64_t limit_of(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return kNoLimit;
  return std::min(limit.rlim_cur, rlim_t{kNoLimit});  // RLIM_INFINITY is larger
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

std::optional<std::string> read_first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line)) return {};
  return line;
}

// Accepts "32768K", "1M" or plain bytes.
int64_t parse_size(const std::string& text) {
  std::istringstream in(text);
  int64_t n = 0;
  char unit = 0;
  in >> n >> unit;
  return unit == 'K' ? n << 10 : unit == 'M' ? n << 20 : unit == 'G' ? n << 30 : n;
}

std::vector<std::string> group_folders(const std::string& controller) {
  std::ifstream in("/proc/self/cgroup");
  std::vector<std::string> folders;
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    std::string root = "/sys/fs/cgroup", path = line.substr(second + 1);
    if (names != ",,") {
      if (names.find(fmt::format(",{},", controller)) == std::string::npos) continue;
      root = fmt::format("{}/{}", root, controller);
    }
    // Each ancestor of the group, innermost first; the root itself is added last.
    for (; path.size() > 1; path.resize(path.rfind('/'))) {
      folders.push_back(fmt::format("{}{}/", root, path));
    }
    folders.push_back(fmt::format("{}/", root));
  }
  return folders;
}

int64_t memory_limit() {
  int64_t bytes = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  for (const std::string& folder : group_folders("memory"))
    for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {
      const auto limit = read_first_line(folder + name);
      if (limit && *limit != "max") bytes = std::min(bytes, parse_size(*limit));
    }
  bytes = std::min(bytes, limit_of(RLIMIT_DATA));
  const int64_t addresses = limit_of(RLIMIT_AS);
  if (addresses == kNoLimit) return bytes;
  // ulimit -v limits the address space, which also includes code, libraries and reserved heaps.
  const int64_t not_for_data = status_bytes({"VmExe", "VmLib"}) + kReservedAddresses;
  return std::min(bytes, std::max<int64_t>(addresses - not_for_data, 0));
}

int64_t free_address_space() {
  const int64_t limit = limit_of(RLIMIT_AS);
  return limit == kNoLimit ? kNoLimit : limit - status_bytes({"VmSize"});
}

int64_t process_resident_bytes() {
  std::FILE* f = std::fopen("/proc/self/statm", "re");
  if (!f) return 0;
  long long size = 0, resident = 0;
  // statm counts pages.
  const int found = std::fscanf(f, "%lld %lld", &size, &resident);
  std::fclose(f);
  return found == 2 ? int64_t{resident} * ::sysconf(_SC_PAGESIZE) : 0;
}

void keep_one_heap_where_addresses_are_limited() {
  if (limit_of(RLIMIT_AS) != kNoLimit) mallopt(M_ARENA_MAX, 1);
}

}  // namespace tessera
