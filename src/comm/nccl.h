// Ranks with a GPU each, by NCCL: messages between devices, without the host. Transfers are
// enqueued in the stream that Communicator::use() names and over for the host at once; what comes
// after them in the stream finds their results. Sums are those of comm/communicator.h, bit for
// bit: every rank sends each other rank its part, and adds what comes in the order of ranks.
#pragma once

#include <memory>

#include "comm/world.h"

namespace tessera {

// `host` brings the ranks together (identifiers of communicators go through it), answers all that
// is not a group, and outlives the world. Throws Error where NCCL is not installed.
std::unique_ptr<World> nccl_world(World& host);

// Memory of the device that a group's transfers take outside of the arena.
constexpr int64_t kNcclStagingBytes = 64 << 20;

}  // namespace tessera
