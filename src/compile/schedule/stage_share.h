// Which blocks and layers of the model a stage of the pipeline has.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/schedule/model_order.h"
#include "compile/schedule/pipeline_shape.h"
#include "ir/program.h"

namespace tessera {

// One stage's share of the model.
struct StageShare {
  PipelineShape pipeline;
  std::vector<int64_t> layers;               // of each chunk of the whole model
  std::vector<std::vector<Action>> actions;  // of each stage
  int64_t stage = 0;

  // What each chunk of the whole model computes, in order. The first has what begins the model, the
  // last what ends it, however few layers they have.
  std::vector<std::vector<Visit>> chunks(const IdVector<BlockId, Block>& blocks) const;
};

// The stages that have each block.
using StagesOfBlocks = IdVector<BlockId, std::vector<int64_t>>;

}  // namespace tessera
