// A transfer between ranks that share a GPU: its operands go through the host's view of the arena.
#pragma once

#include "runtime/prepared_op.h"
#include "tensor/arena.h"

namespace tessera {

// Runs the op by the host's communicator and returns when it is over. Ranks wait for each other in
// issue order, so they cannot wait in a cycle.
void exchange_through_host(const Arena& arena, const PreparedOp& op);

}  // namespace tessera
