// Segments → frames and calls in issue order, for one stage.
//   before  a program with kinds and segments
//   after   every call of the step, with the frames it works on; no offsets but those of state
//
// A training step:
//   clear · pack · the pipeline's forwards and backwards with their messages · squares · clip ·
//   update
// and of the other programs: clear · pack · forward of one micro-batch.
//
// Issue orders of all stages are restrictions of one global order: an action stands at the time it
// starts where messages are free, a message at the time its producer finishes, on both ends, before
// the actions of that time. So every wait points backward in one order and none can form a cycle.
#pragma once

#include "compile/expand.h"
#include "compile/pipeline.h"

namespace tessera {

// Blocks in the order of the model, the layers of all stacks numbered through: [first, last) of
// each block's, with first = last of what stands between two stacks: it goes before the layer
// `first`.
struct BlockRange {
  int64_t first = 0, last = 0;
};
std::vector<BlockRange> block_ranges(const std::vector<Block>& blocks);

// One stage's share of the model.
struct StageShare {
  PipelineShape pipeline;
  std::vector<int64_t> layers;               // of each chunk of the whole model
  std::vector<std::vector<Action>> actions;  // of each stage
  int64_t stage = 0;

  int64_t first_layer(int64_t chunk) const;
  // Some of a block: the first stage has what begins the model, the last what ends it.
  bool holds(const Block& block, const BlockRange& range) const;
};

// `expanded` gives its program away; its blocks and groups stay.
Program schedule(Expanded& expanded, const CompileRequest& request, const Recompute& recompute,
                 const Target& target, const StageShare& share);

// What a call's frames say of its message or collective; empty for a segment without any.
Wire wire_of(const Program& p, const Call& c);

}  // namespace tessera
