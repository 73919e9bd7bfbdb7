// The two halves of compile(): blocks, which all stages share, and the schedule of one stage.
#pragma once

#include "compile/expanded.h"
#include "compile/request.h"
#include "compile/stage_share.h"
#include "compile/target.h"

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

}  // namespace tessera
