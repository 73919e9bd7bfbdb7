// The communicators that a rank's program uses: one per group and queue, so that transfers of
// different queues never mix, and for the pipeline one per direction.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace tessera {

// Which messages of the pipeline share a communicator. kShared: all of a direction, between any
// stages. kPairs: those of a direction from one stage to its neighbour. NCCL runs the operations of
// a communicator one after another: with kShared a receive that was started early would hold up the
// sends after it.
enum class Messages : uint8_t { kShared, kPairs };

struct CommunicatorName {
  GroupRef over;
  Queue queue = Queue::kData;  // separates communicators of one group; of a message the sender's
  int64_t from = kNone;        // of messages of one pair of stages: the stage that sends
  auto operator<=>(const CommunicatorName&) const = default;
};

// Returns the communicator of an op that communicates, on that queue of `program`. A sender's queue
// and the receiver's share one.
CommunicatorName communicator_of(const Op& op, Queue queue, const Program& program,
                                 Messages messages);

struct CommunicatorUse {
  CommunicatorName name;
  bool reduces = false;
};
// Returns what the rank of these programs uses, sorted by name: ranks that share several
// communicators make them in the same order, and no wait can cycle.
std::vector<CommunicatorUse> communicators_of(const std::vector<const Program*>& programs,
                                              Messages messages);

// Returns the number of communicators of more than one rank that the program needs. Each takes
// device memory outside of the arena.
int64_t communicator_count(const Program& program);

}  // namespace tessera
