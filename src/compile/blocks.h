// compile() in two halves: the passes whose result all stages share, and those of one stage.
#pragma once

#include "compile/passes.h"

namespace tessera {

// What the programs of all stages are made of.
struct Blocks {
  Context context;
  State state;  // after block_passes()
};

// Throws as compile() does. compile(r, t) is program_of(compile_blocks(r, t), r.stage).
Blocks compile_blocks(const CompileRequest& request, const Target& target);
Program program_of(const Blocks& blocks, int64_t stage);

}  // namespace tessera
