#include "runtime/device_sharing.h"

#include <map>

namespace tessera {

std::optional<std::pair<int64_t, int64_t>> ranks_that_share(std::span<const std::string> devices) {
  std::map<std::string, int64_t> first;
  for (size_t r = 0; r < devices.size(); ++r) {
    const auto [at, fresh] = first.try_emplace(devices[r], static_cast<int64_t>(r));
    if (!fresh) return std::pair{at->second, static_cast<int64_t>(r)};
  }
  return std::nullopt;
}

}  // namespace tessera
