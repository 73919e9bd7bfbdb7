// State of the lowering: the graph, the program so far, and the functions that build it, one file
// per topic.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compile/context.h"
#include "compile/lower/lower.h"
#include "compile/schedule/stage_layers.h"

namespace tessera::compile {

// Flat state is divided into units of 64 elements (for ZeRO), so each member starts at a multiple
// of 64 elements.
constexpr int64_t kUnitElements = 64;

struct Lowering {
  Lowering(Graph from, const Context& c, const StagesOfBlocks& h)
      : graph(std::move(from)), context(c), holders(h) {}

  Graph graph;
  const Context& context;
  const StagesOfBlocks& holders;
  LoweredGraph out;
  ValueVector local;  // for the target: the operands of its op, as one rank stores them
  // Per stream: the buffer kind that blocks read, and the buffer kind of its gradient.
  EnumArray<HiddenStream, BufferKindId> streams, stream_gradients;
  std::map<std::pair<BufferKindId, bool>, ValueId> flats;
  std::map<BlockId, std::vector<std::pair<Op, ValueId>>> packs;  // GEMMs and packed weights
  std::map<std::pair<ValueId, OpKind>, ValueId> packed;

  bool trains() const { return context.trains(); }
};

// lower.cc: creates any segment; finds the only value with a role.
SegmentId segment(Lowering& low, Phase phase, const std::string& subject, std::vector<Op> ops,
                  Queue queue = Queue::kCompute);
ValueId only(const Lowering& low, Role role);

// groups.cc: groups of weights with one lifetime.
void group_weights(Lowering& low);

// weights.cc: buffers of weights, flat optimizer state, gradients.
void weight_buffers(Lowering& low);
void gradient_buffers(Lowering& low);
BufferKindId flat_buffer(Lowering& low, const WeightGroup& group, const std::string& suffix,
                         Role role, DType type, bool divided);
ValueId flat(Lowering& low, BufferKindId kind, bool own);
void weight_segments(Lowering& low, WeightGroup& group);

// update.cc: optimizer state and its segments.
void optimizer_buffers(Lowering& low, WeightGroup& group);
// Returns the flat value of the group's optimizer state with that role, or kNone.
ValueId kept(const Lowering& low, const WeightGroup& group, Role role);
ValueId owned_weights(Lowering& low, const WeightGroup& group);
// Returns true if an optimizer of matrices updates the group.
bool updates_matrices(const Lowering& low, const WeightGroup& group);
void squares_segment(Lowering& low, WeightGroup& group);
void update_segment(Lowering& low, WeightGroup& group);

// moment_blocks.cc: throws Error if a rank's shards of the group's weights cut blocks of moments in
// 8 bits.
void require_whole_blocks(const Lowering& low, const WeightGroup& group);

// factors.cc: Adafactor's additional state.
void factor_buffers(Lowering& low, WeightGroup& group);
void factor_segments(Lowering& low, WeightGroup& group);
// Returns the number of columns of a weight as GEMMs read it, a matrix [rows, columns]; 0 for a
// vector.
int64_t columns_of(const Lowering& low, ValueId weight);

// matrices.cc: Muon's directions.
void direction_segments(Lowering& low, WeightGroup& group);

// collectives.cc: gathers of weights, reductions of gradients and of attention scores.
void reduce_segments(Lowering& low, WeightGroup& group);
void score_segments(Lowering& low);
SegmentId collective(Lowering& low, Phase phase, const std::string& subject,
                     OpAttributes attributes, const GroupRef& over, ValueId in, ValueId out,
                     Queue queue);

// buffers.cc: buffers that outlive a segment: batches, hidden states, values saved for the
// backward.
BufferKindId buffer(Lowering& low, const std::string& name, const std::vector<ValueId>& values,
                    uint8_t per, bool state);
void batch_buffers(Lowering& low);
void score_buffers(Lowering& low);
void stream_buffers(Lowering& low);
void saved_buffers(Lowering& low);
void pending_buffers(Lowering& low);

// products.cc: workspaces and packed weights that the target needs.
void prepare_products(Lowering& low);
void ask_target(Lowering& low, std::vector<Op>& ops, BlockId block = kNone);
void pack_segments(Lowering& low);

// messages.cc: messages between stages.
void message_segments(Lowering& low);

// blocks.cc: the segments of a block, including recomputation.
void block_segments(Lowering& low, const Block& block, BlockSegments& out);

}  // namespace tessera::compile
