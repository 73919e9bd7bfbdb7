// The communicators that a rank's program uses: one per group and queue, so that transfers of
// different queues never mix, and for the pipeline one per direction.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace tessera {

// How pipeline messages share communicators. kShared: one for all messages of a direction. kPairs:
// one per direction and pair of neighboring stages. NCCL runs the operations of a communicator one
// after another: with kShared, a receive that was started early would delay the sends after it.
enum class MessageCommunicators : uint8_t { kShared, kPairs };

struct CommunicatorName {
  GroupRef over;
  Queue queue = Queue::kData;  // separates communicators of one group; for a message, the sender's
                               // queue
  int64_t from = kNone;        // the sending stage, for messages between one pair of stages
  auto operator<=>(const CommunicatorName&) const = default;
};

// Returns the communicator of a communicating op on that queue of `program`. The sender's queue and
// the receiver's share one.
CommunicatorName communicator_of(const Op& op, Queue queue, const Program& program,
                                 MessageCommunicators messages);

struct CommunicatorUse {
  CommunicatorName name;
  bool reduces = false;
};
// Returns the communicators of a rank that runs these programs, sorted by name, so that ranks that
// share several communicators create them in the same order and cannot deadlock.
std::vector<CommunicatorUse> communicators_of(const std::vector<const Program*>& programs,
                                              MessageCommunicators messages);

// Returns the number of communicators with more than one rank that the program needs. Each uses
// device memory outside the arena.
int64_t communicator_count(const Program& program);

}  // namespace tessera
