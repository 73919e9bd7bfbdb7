// Collectives as steps of messages, without a word of how messages travel: every rank sends each
// other rank its part directly, in pieces that fit the staging memory.
//   reduce_scatter   step c: piece c of part d goes to rank d; rank r adds what comes in rank order
//   all_gather       step c: piece c of the own part goes to everyone, straight to its place
//   all_reduce       the one, then the other over the parts; what is small goes to everyone whole
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "comm/communicator.h"
#include "comm/world.h"

namespace tessera::comm {

// Enough that a link has the next piece at hand while the ends agree about the one after it.
constexpr int64_t kStepsInFlight = 4;

struct PeerMessage {
  std::byte* data = nullptr;
  int64_t bytes = 0;
  int64_t peer = 0;
  bool receives = false;
};

// A step of a transfer and the slot of the staging memory that is its own while it is in flight.
struct Step {
  int64_t index = 0;
  int64_t slot = 0;  // below kStepsInFlight
};

// The steps of the transfers of a line are one stream, of which kStepsInFlight are in flight: from
// the start of their messages until all have come and gone and finish(step) has run. Steps finish
// in order.
struct Transfer {
  int64_t steps = 0;
  int64_t barrier = 0;  // this step starts when all before it are finished; 0: none
  std::function<void(const Step&, std::vector<PeerMessage>&)> messages;  // receives first
  std::function<void(const Step&)> finish = [](const Step&) {};
};

// Bytes of staging memory of a group: kStagingBytes, and more where that would leave a peer less
// than kLeastStagedBytes in each step.
constexpr int64_t kLeastStagedBytes = 64;
constexpr int64_t staging_bytes(int64_t ranks) {
  return std::max(kStagingBytes, kStepsInFlight * kLeastStagedBytes * (ranks - 1));
}

// A rank's view of its group.
struct Member {
  int64_t rank = 0, size = 1;
  std::byte* staging = nullptr;  // staging_bytes(size), for transfers that reduce
};

Transfer all_reduce_transfer(const Member& m, const TensorView& in, const TensorView& out,
                             Reduction r);
Transfer reduce_scatter_transfer(const Member& m, const TensorView& whole, const TensorView& part,
                                 const ReduceScatterForm& how);
Transfer all_gather_transfer(const Member& m, const TensorView& part, const TensorView& whole,
                             int64_t share);
Transfer message_transfer(const TensorView& x, int64_t peer, bool receives);

}  // namespace tessera::comm
