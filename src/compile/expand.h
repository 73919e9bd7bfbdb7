// The last block pass: Graph → segments and frame kinds.
//   before  values have roles and shardings; blocks have lists of ops
//   after   every value that outlives its segment has a frame kind and an offset in it; every other
//           one an offset in its segment's scratch; products have workspaces and packed weights
#pragma once

#include <vector>

#include "compile/expanded.h"
#include "compile/request.h"
#include "compile/stage_share.h"
#include "compile/target.h"

namespace tessera {

Expanded expand(Graph graph, const CompileRequest& request, const Recompute& recompute,
                const Target& target, const StagesOfBlocks& holders);

}  // namespace tessera
