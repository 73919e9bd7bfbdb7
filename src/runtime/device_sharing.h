// Whether ranks share a device.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace tessera {

// Of each rank its host and its device's UUID, in rank order. Returns the first two ranks that have
// the same; none: each rank has a device of its own. How many devices a process sees says nothing:
// a launcher may show each rank only its own.
std::optional<std::pair<int64_t, int64_t>> ranks_that_share(std::span<const std::string> devices);

}  // namespace tessera
