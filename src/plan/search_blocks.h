// Costs that layouts with the same blocks share: the time of their segments and the saved bytes per
// layer, independent of the schedule. They are compiled once for each (tensor, context, its method
// and balance, expert, micro-batch, recomputation, sequence parallelism, split backward).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "compile/request.h"
#include "compile/schedule/layer_costs.h"
#include "ir/target.h"
#include "plan/hardware.h"
#include "plan/software.h"

namespace tessera::plan {

struct InlineCollective {
  CommKind kind = CommKind::kAllReduce;
  GroupRef over;
  double bytes = 0;  // size of the full tensor
};

// Costs of one call. [1]: of a call that writes a gradient sum instead of adding to it.
struct SegmentCost {
  std::array<int64_t, 2> compute_ns{};  // ops without communication
  std::array<int64_t, 2> floor_ns{};    // minimum, due to kernel launches
  std::vector<InlineCollective> collectives;
  int64_t scratch_bytes = 0;
};

// Weights that are gathered, reduced and updated together. Sizes are those of one tensor rank.
struct GroupCost {
  bool embed = false, head = false;  // used by the embedding, by the head
  int stack = kNone;                 // the stack whose layers each have such weights
  bool trained = true;     // false: frozen, so without gradients, optimizer state and update
  bool read_back = false;  // a backward reads the weights
  int64_t elements = 0;
  int64_t weight_bytes = 0, kept_bytes = 0;  // per element: weight, optimizer state without scales
  int64_t factor_bytes = 0;                  // Adafactor's factors, which every rank has in full
  int64_t sum_bytes = 0, wire_bytes = 0;     // per element: gradient sum, gradient on the wire
  int64_t squares_ns = 0, update_ns = 0;     // for all elements on one rank
  int64_t orthogonalize_ns = 0;              // Muon's iterations, which ZeRO does not divide
};

// Costs of one layer of a stack. `again` is recomputation, `weights` the weight-gradient part of a
// split backward.
struct StackCosts {
  SegmentCost layer, again, backward, weights;
  int64_t saved_bytes = 0;  // everything that the forward saves for the backward
  int64_t input_bytes = 0;  // the layer's input, if a later call reads it
  // With a split backward: bytes that the input-gradient part leaves for the weight-gradient part,
  // and saved bytes that the latter still reads.
  int64_t pending_bytes = 0, kept_bytes = 0;
  int64_t stream_gradient_bytes = 0;  // hidden-state gradients that the backward reads and writes
  bool gives_memory = false;          // its backward adds to the gradient of the encoder output
};

struct BlockCosts {
  std::vector<StackCosts> stacks;
  std::vector<size_t> order;      // the stack of each layer of the model
  int64_t bridge_before = kNone;  // the layer that follows the bridge between encoder and decoder
  bool embeds_backward = false;   // the embedding has a backward: some of its weights are trained
  SegmentCost embed, head, embed_backward;
  SegmentCost bridge, bridge_backward;  // the block between two stacks
  bool light = false;                   // full recomputation: layers save only their input
  double message_bytes = 0;             // the smallest message between stages
  std::vector<GroupCost> groups;
  compile::LayerCosts shares;
};

// Returns the costs of the blocks of `request`. The data and pipeline degrees of its layout are
// ignored; zero_bubble splits the backward.
BlockCosts block_costs(const compile::CompileRequest& request, const Target& target,
                       const Hardware& hardware, const Software& software);

}  // namespace tessera::plan
