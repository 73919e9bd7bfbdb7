// Reads /proc/self/cgroup and lists the directories that may limit this process, from its own group
// up to the root: a limit of any ancestor applies.
#include "tensor/control_groups.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

namespace tessera {

std::optional<std::string> read_first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line)) return {};
  return line;
}

// "32768K", "1M" or plain bytes.
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

}  // namespace tessera
