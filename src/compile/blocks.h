// The two halves of compile(): blocks, which all stages share, and the schedule of one stage.
#pragma once

#include "compile/expand.h"
#include "compile/stage_share.h"

namespace tessera {

// What the programs of all stages are made of.
struct Blocks {
  CompileRequest request;
  Recompute recompute;
  StageShare share;
  Expanded expanded;
};

// Throws as compile() does. compile(r, t) = program_of(compile_blocks(r, t), r.stage, t).
Blocks compile_blocks(const CompileRequest& request, const Target& target);
Program program_of(const Blocks& blocks, int64_t stage, const Target& target);

// Operations of the forward of each layer of all stacks, of the embedding and of the head, in those
// of the cheapest layer. What stands before a stack goes with its first layer.
struct BlockShares {
  std::vector<double> layers;
  double embedding = 0, head = 0;
  auto operator<=>(const BlockShares&) const = default;
};
BlockShares shares_of(const std::vector<Block>& blocks, const std::vector<Value>& values);

// The layers of each chunk, as even as can be, and what chunks cost for PipelineShape::cost.
std::vector<int64_t> spread_layers(const BlockShares& shares, int64_t chunks);
std::vector<int64_t> chunk_costs(const BlockShares& shares, const std::vector<int64_t>& layers);

}  // namespace tessera
