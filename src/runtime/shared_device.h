// Ranks that share a device: finding them, and transfers between them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "runtime/bound_program.h"

namespace tessera::runtime {

// `devices`: host and device UUID of each rank, in rank order. Returns the first two ranks with the
// same device, or nothing if each rank has one of its own. The number of devices that a process
// sees does not matter: a launcher may show each rank only its own.
std::optional<std::pair<int64_t, int64_t>> ranks_that_share(std::span<const std::string> devices);

// A transfer between ranks that share a GPU: its operands go through the host's view of the arena.
// Runs the op by the host's communicator and returns when it is complete. Ranks wait for each other
// in issue order, so they cannot wait in a cycle.
void exchange_through_host(const Arena& arena, const PreparedOp& op);

}  // namespace tessera::runtime
