// Collectives as steps of point-to-point messages, independent of the transport: every rank sends
// each other rank its part directly, in pieces that fit the staging memory.
//   reduce_scatter   step c sends piece c of part d to rank d, and adds the received pieces in the
//                    order of ranks
//   all_gather       step c sends piece c of this rank's part to all others, which receive it in
//                    its final place
//   all_to_all       step c sends piece c of chunk d to rank d, in its final place
//   rotate           step c sends piece c of the array to the next rank
//   all_reduce       reduce_scatter, then all_gather of the parts; a small array is sent whole
//                    to all other ranks in one step
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "comm/communicator.h"
#include "comm/world.h"

namespace tessera::comm {

// Enough to keep a link busy: a piece is on the wire while both ends set up the next ones.
constexpr int64_t kStepsInFlight = 4;

struct PeerMessage {
  std::byte* data = nullptr;
  int64_t bytes = 0;
  int64_t peer = 0;
  bool receives = false;
};

// A step of a transfer, and the slot of the staging memory that it uses while it is in flight.
struct Step {
  int64_t index = 0;
  int64_t slot = 0;  // in [0, kStepsInFlight)
};

// A collective, or one message between two ranks, as steps. The steps of all transfers of a queue
// form one sequence; at most kStepsInFlight steps are in flight. A step is in flight from the
// start of its messages until all of them are complete and finish(step) has run. Steps finish in
// order.
struct Transfer {
  int64_t steps = 0;
  int64_t barrier = 0;  // this step starts when all before it are finished; 0: none
  std::function<void(const Step&, std::vector<PeerMessage>&)> messages;  // receives first
  std::function<void(const Step&)> finish = [](const Step&) {};
};

// Returns the bytes of staging memory of a group: kStagingBytes, or more if a peer would get less
// than kLeastStagedBytes per step.
constexpr int64_t kLeastStagedBytes = 64;
constexpr int64_t staging_bytes(int64_t ranks) {
  return std::max(kStagingBytes, kStepsInFlight * kLeastStagedBytes * (ranks - 1));
}

// A rank's view of its group.
struct Member {
  int64_t rank = 0, size = 1;
  std::byte* staging = nullptr;  // staging_bytes(size) bytes; only used by transfers that reduce
};

Transfer all_reduce_transfer(const Member& m, const TensorView& in, const TensorView& out,
                             Reduction r);
Transfer reduce_scatter_transfer(const Member& m, const TensorView& whole, const TensorView& part,
                                 const ReduceScatterForm& how);
Transfer all_gather_transfer(const Member& m, const TensorView& part, const TensorView& whole,
                             int64_t share);
Transfer all_to_all_transfer(const Member& m, const TensorView& in, const TensorView& out);
Transfer rotate_transfer(const Member& m, const TensorView& in, const TensorView& out);
Transfer message_transfer(const TensorView& x, int64_t peer, bool receives);

}  // namespace tessera::comm
