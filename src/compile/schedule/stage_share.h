// Which blocks and layers of the model a stage of the pipeline has.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/request.h"
#include "compile/schedule/pipeline.h"
#include "ir/program.h"

namespace tessera::compile {

// ---- The blocks and layers of a model in the order in which its forward computes them.

// Where a call reads its stream and where it writes one. Layer n of a stream reads position n and
// writes position n + 1.
struct Positions {
  int64_t in = kNone, out = kNone;
};

// A block that exists once, or one layer of a stack.
struct Visit {
  BlockId block;
  int64_t layer = kNone;  // its number on its stream; kNone: a block that is not a stack
  // How many layers, of all streams, come before it. A pipeline cuts the model at these numbers: a
  // block between two stacks goes with the layer after it.
  int64_t before = 0;
  Positions at;
};

// Stacks that follow each other on one stream are merged by the numbers of their layers.
std::vector<Visit> model_order(const IdVector<BlockId, Block>& blocks);

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

// Gives each chunk the layers that the layout names, or spreads them so that the costliest chunk is
// as cheap as possible. Leaves StageShare::stage at 0.
StageShare assign_stages(const Graph& graph, const CompileRequest& request);

StagesOfBlocks holders_of(const Graph& graph, const StageShare& share);

}  // namespace tessera::compile
