// The blocks and layers of the model that each pipeline stage has.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/request.h"
#include "compile/schedule/pipeline.h"
#include "ir/program.h"

namespace tessera::compile {

// ---- The blocks and layers of a model in the order in which its forward computes them.

// The positions of a stream at which a call reads and writes. Layer n of a stream reads position n
// and writes position n + 1.
struct Positions {
  int64_t in = kNone, out = kNone;
};

// A block that exists once, or one layer of a stack.
struct ChunkBlock {
  BlockId block;
  int64_t layer = kNone;  // its number on its stream; kNone: a block that is not a stack
  // The number of layers, of all streams, before it. A pipeline divides the model at these numbers:
  // a block between two stacks belongs to the same chunk as the layer after it.
  int64_t before = 0;
  Positions at;
};

// Returns the visits of a forward. Consecutive stacks of one stream are merged by the numbers of
// their layers.
std::vector<ChunkBlock> model_order(const IdVector<BlockId, Block>& blocks);

// The division of the model into stages, and the share of one of them.
struct StageLayers {
  PipelineShape pipeline;
  std::vector<int64_t> layers;               // number per chunk of the whole model
  std::vector<std::vector<Action>> actions;  // per stage
  int64_t stage = 0;

  // Returns what each chunk of the whole model computes, in order. The first chunk has the blocks
  // before the layers, the last one those after them, even if they have no layers.
  std::vector<std::vector<ChunkBlock>> chunks(const IdVector<BlockId, Block>& blocks) const;
};

// The stages that hold each block.
using StagesOfBlocks = IdVector<BlockId, std::vector<int64_t>>;

// Gives each chunk the layers that the layout lists, or divides them so that the most expensive
// chunk is as cheap as possible. Leaves StageLayers::stage at 0.
StageLayers assign_stages(const Graph& graph, const CompileRequest& request);

StagesOfBlocks holders_of(const Graph& graph, const StageLayers& share);

}  // namespace tessera::compile
