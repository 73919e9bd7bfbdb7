// Which blocks and layers of the model a stage of the pipeline has.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/schedule/pipeline_shape.h"
#include "ir/program.h"

namespace tessera {

// Blocks in the order of the model, the layers of all stacks numbered through: [first, last) of
// each block's, with first = last of what stands between two stacks: it goes before the layer
// `first`.
struct BlockRange {
  int64_t first = 0, last = 0;
};
IdVector<BlockId, BlockRange> block_ranges(const IdVector<BlockId, Block>& blocks);

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

// The stages that have each block.
using StagesOfBlocks = IdVector<BlockId, std::vector<int64_t>>;

}  // namespace tessera
