// Detects ranks that share a device.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace tessera {

// `devices`: host and device UUID of each rank, in rank order. Returns the first two ranks with the
// same device, or nothing if each rank has one of its own. The number of devices that a process
// sees does not matter: a launcher may show each rank only its own.
std::optional<std::pair<int64_t, int64_t>> ranks_that_share(std::span<const std::string> devices);

}  // namespace tessera
