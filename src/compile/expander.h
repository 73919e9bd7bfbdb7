// What expand() works with. Its parts, a file each: frames of what blocks leave, products,
// messages, groups of weights, their gradients, the optimizer, the segments of blocks, and in
// expand.cc what frames the step.
#pragma once

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compile/expanded.h"
#include "compile/request.h"
#include "compile/stage_share.h"
#include "compile/target.h"

namespace tessera {

// Flat state is cut into pieces of 64 elements (ZeRO's unit), so its members start on such.
constexpr int64_t kUnitElements = 64;

class Expander {
 public:
  Expander(Graph graph, const CompileRequest& request, const Recompute& recompute,
           const Target& target, const StagesOfBlocks& holders)
      : g_(std::move(graph)),
        request_(request),
        recompute_(recompute),
        target_(target),
        holders_(holders) {}

  Expanded run();

 private:
  bool trains() const { return request_.purpose == Purpose::kTrain; }
  int64_t shards() const { return g_.mesh[AxisKind::kShard]; }
  // What of the state stands apart as a rank's part: 1 the optimizer's, 2 gradients, 3 weights.
  bool divides(int64_t stage) const { return request_.layout.zero >= stage && shards() > 1; }
  bool reduces_each() const;

  // Weights that live together (expand_groups.cc).
  GroupId group_for(ValueId weight);
  void group_weights();

  // Weights and what is kept of them (expand_weights.cc).
  void weight_frames();
  void gradient_frames();
  FrameKindId flat_frame(const WeightGroup& g, const std::string& suffix, Role role, DType type,
                         bool divided);
  ValueId flat(FrameKindId kind, bool own);
  void weight_segments(WeightGroup& group);

  // What the optimizer keeps, and its segments (expand_update.cc).
  bool has_master(const WeightGroup& group) const;
  void optimizer_frames(WeightGroup& group);
  ValueId kept(const WeightGroup& group, Role role) const;
  ValueId owned_weights(const WeightGroup& group);
  void squares_segment(WeightGroup& group);
  void update_segment(WeightGroup& group);

  // What Adafactor keeps besides (expand_factors.cc).
  void factor_frames(WeightGroup& group);
  int64_t columns_of(ValueId weight) const;
  void factor_segments(WeightGroup& group);

  // What gathers weights and reduces gradients (expand_collectives.cc).
  void reduce_segments(WeightGroup& group);
  SegmentId collective(Phase phase, const std::string& subject, OpAttributes attributes,
                       const GroupRef& over, ValueId in, ValueId out, Queue queue);
  std::vector<Op> buckets(const Op& reduction);

  // What outlives its segment: batches, streams, what the backward reads (expand_frames.cc).
  FrameKindId frame(const std::string& name, const std::vector<ValueId>& values, uint8_t per,
                    bool state);
  void batch_frames();
  void stream_frames();
  void saved_frames();
  void pending_frames();

  // What the target's library wants: workspaces and packed weights (expand_products.cc).
  void prepare_products();
  void ask_target(std::vector<Op>& ops, BlockId block = kNone);
  void pack_weight(Op& op, BlockId block);
  void pack_segments();

  // Between stages (expand_messages.cc).
  void message_segments();
  SegmentId message(Phase phase, const std::string& subject, const std::vector<FrameKindId>& kinds,
                    Queue queue);
  void kept_segments(CrossingMessages& m, const std::string& subject,
                     const std::vector<FrameKindId>& kinds);
  ValueId first_value(FrameKindId kind) const;

  // Blocks, with what is computed again (expand_blocks.cc).
  void block_segments(const Block& block, BlockSegments& out);
  std::vector<Op> clone_scratch(std::vector<Op> ops, bool keep_frames);
  void keep_saved(std::vector<Op>& ops, ValueId output) const;
  void give_away(std::vector<Op>& ops, ValueId output);

  // Any segment, and those of the step (expand.cc).
  SegmentId segment(Phase phase, const std::string& subject, std::vector<Op> ops,
                    Queue queue = Queue::kCompute);
  Access access_of(const Segment& s, FrameKindId kind) const;
  void step_segments();
  ValueId only(Role role) const;

  Graph g_;
  const CompileRequest& request_;
  const Recompute& recompute_;
  const Target& target_;
  const StagesOfBlocks& holders_;
  Expanded out_;
  ValueVector local_;  // the values as one rank has them, for the target
  // Of each stream: the kind that blocks read, and that of its gradient.
  std::array<FrameKindId, kHiddenStreams> streams_, stream_gradients_;
  std::map<std::pair<FrameKindId, bool>, ValueId> flats_;
  std::map<BlockId, std::vector<std::pair<Op, ValueId>>> packs_;  // products and packed weights
  std::map<std::pair<ValueId, OpKind>, ValueId> packed_;
};

}  // namespace tessera
