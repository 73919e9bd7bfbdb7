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

// Operations of the forward of the embedding and of the head, in those of a layer: by them
// spread_layers() evens out the stages.
struct BlockShares {
  double embedding = 0, head = 0;
};
BlockShares shares_of(const std::vector<Block>& blocks, const std::vector<Value>& values);

}  // namespace tessera
