// What layouts with the same blocks share: how long their segments take and how many bytes a layer
// saves, without any schedule. Compiled once for each (tensor, micro-batch, recomputation, sequence
// parallelism, divided backward).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "compile/request.h"
#include "compile/schedule/block_shares.h"
#include "ir/target.h"
#include "plan/hardware.h"
#include "plan/software.h"

namespace tessera::plan {

struct InlineCollective {
  WireKind kind = WireKind::kAllReduce;
  GroupRef over;
  double bytes = 0;  // of the whole
};

// Of one call; [1]: of a call that adds first to a sum.
struct SegmentCost {
  std::array<int64_t, 2> compute_ns{};  // of what communicates nothing
  std::array<int64_t, 2> floor_ns{};    // what its launches take at least
  std::vector<InlineCollective> collectives;
  int64_t scratch_bytes = 0;
};

// Weights that are gathered, reduced and updated together; sizes of one tensor rank.
struct GroupCost {
  bool embed = false, head = false;  // who uses them
  int stack = kNone;                 // of the layers that have such weights each of its own
  bool trained = true;     // false: frozen, so without gradients, optimizer state and update
  bool read_back = false;  // a backward reads the weights
  int64_t elements = 0;
  int64_t weight_bytes = 0, kept_bytes = 0;  // of an element: of the weight, by the optimizer
  int64_t factor_bytes = 0;                  // Adafactor's means, which every rank has in full
  int64_t sum_bytes = 0, wire_bytes = 0;     // of its gradient: kept, and sent to other ranks
  int64_t squares_ns = 0, update_ns = 0;     // of all elements on one rank
};

// Of a layer of a stack.
struct StackCosts {
  SegmentCost layer, again, backward, weights;
  int64_t saved_bytes = 0;  // of the forward for the backward, all of it
  int64_t input_bytes = 0;  // of the layer's input, where a later call reads it
  // With the backward divided: what the first part leaves to the second, and what of the forward
  // the second still reads.
  int64_t pending_bytes = 0, kept_bytes = 0;
  int64_t stream_gradient_bytes = 0;  // of what comes in and goes out of the backward
  bool gives_memory = false;          // its backward adds to the gradient of an encoder's output
};

struct BlockCosts {
  std::vector<StackCosts> stacks;
  std::vector<size_t> order;      // of each layer of the model, its stack
  int64_t bridge_before = kNone;  // the layer before which a block between two streams is
  bool embeds_backward = false;   // the embedding has a backward: some of its weights are trained
  SegmentCost embed, head, embed_backward;
  SegmentCost bridge, bridge_backward;  // between two stacks
  bool light = false;                   // a layer saves nothing, `again` does before the backward
  double message_bytes = 0;             // of the smallest message between stages
  std::vector<GroupCost> groups;
  compile::BlockShares shares;
};

// `request`: the layout's data and pipeline are put aside; zero_bubble divides the backward.
BlockCosts block_costs(const compile::CompileRequest& request, const Target& target,
                       const Hardware& hardware, const Software& software);

}  // namespace tessera::plan
