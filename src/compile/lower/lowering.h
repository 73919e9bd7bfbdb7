// State of the lowering: the graph, the program so far, and the functions that build it, one file
// per topic.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compile/context.h"
#include "compile/lower/expand.h"
#include "compile/schedule/stage_share.h"

namespace tessera::compile {

// Flat state is cut into pieces of 64 elements (ZeRO's unit), so each member starts at a multiple
// of them.
constexpr int64_t kUnitElements = 64;

struct Lowering {
  Lowering(Graph from, const Context& c, const StagesOfBlocks& h)
      : graph(std::move(from)), context(c), holders(h) {}

  Graph graph;
  const Context& context;
  const StagesOfBlocks& holders;
  Expanded out;
  ValueVector local;  // the values as one rank has them, for the target
  // Of each stream: the kind that blocks read, and that of its gradient.
  EnumArray<HiddenStream, FrameKindId> streams, stream_gradients;
  std::map<std::pair<FrameKindId, bool>, ValueId> flats;
  std::map<BlockId, std::vector<std::pair<Op, ValueId>>> packs;  // products and packed weights
  std::map<std::pair<ValueId, OpKind>, ValueId> packed;

  bool trains() const { return context.trains(); }
};

// expand.cc: any segment, and the one value of a role.
SegmentId segment(Lowering& low, Phase phase, const std::string& subject, std::vector<Op> ops,
                  Queue queue = Queue::kCompute);
ValueId only(const Lowering& low, Role role);

// groups.cc: weights that live together.
void group_weights(Lowering& low);

// weights.cc: weights, what is kept of them, gradients.
void weight_frames(Lowering& low);
void gradient_frames(Lowering& low);
FrameKindId flat_frame(Lowering& low, const WeightGroup& group, const std::string& suffix,
                       Role role, DType type, bool divided);
ValueId flat(Lowering& low, FrameKindId kind, bool own);
void weight_segments(Lowering& low, WeightGroup& group);

// update.cc: what the optimizer keeps, and its segments.
void optimizer_frames(Lowering& low, WeightGroup& group);
ValueId owned_weights(Lowering& low, const WeightGroup& group);
void squares_segment(Lowering& low, WeightGroup& group);
void update_segment(Lowering& low, WeightGroup& group);

// factors.cc: what Adafactor keeps in addition.
void factor_frames(Lowering& low, WeightGroup& group);
void factor_segments(Lowering& low, WeightGroup& group);

// collectives.cc: what gathers weights and reduces gradients.
void reduce_segments(Lowering& low, WeightGroup& group);
SegmentId collective(Lowering& low, Phase phase, const std::string& subject,
                     OpAttributes attributes, const GroupRef& over, ValueId in, ValueId out,
                     Queue queue);

// frames.cc: what outlives its segment: batches, streams, what the backward reads.
FrameKindId frame(Lowering& low, const std::string& name, const std::vector<ValueId>& values,
                  uint8_t per, bool state);
void batch_frames(Lowering& low);
void stream_frames(Lowering& low);
void saved_frames(Lowering& low);
void pending_frames(Lowering& low);

// products.cc: workspaces and packed weights that the target requires.
void prepare_products(Lowering& low);
void ask_target(Lowering& low, std::vector<Op>& ops, BlockId block = kNone);
void pack_segments(Lowering& low);

// messages.cc: what goes from stage to stage.
void message_segments(Lowering& low);

// blocks.cc: the segments of a block, with what is computed again.
void block_segments(Lowering& low, const Block& block, BlockSegments& out);

}  // namespace tessera::compile
