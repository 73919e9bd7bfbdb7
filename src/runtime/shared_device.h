// Finds ranks that share a device, and runs transfers between them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "runtime/bound_program.h"

namespace tessera::runtime {

// Returns the first two ranks with the same device, or nothing if each rank has its own. `devices`
// contains the host and the device UUID of each rank, in rank order. The number of devices that a
// process sees does not matter: a launcher may show each rank only its own.
std::optional<std::pair<int64_t, int64_t>> ranks_that_share(std::span<const std::string> devices);

// Runs a transfer between ranks that share a GPU: copies its operands to the host's view of the
// arena, runs the op with the host's communicator, and returns when it is complete. Ranks wait for
// each other in issue order, so they cannot deadlock.
void exchange_through_host(const Arena& arena, const PreparedOp& op);

}  // namespace tessera::runtime
