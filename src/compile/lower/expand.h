// The last block pass: Graph → segments and frame kinds.
//   before  values have roles and shardings; blocks have lists of ops
//   after   every value that outlives its segment has a frame kind and an offset in it; every other
//           one an offset in its segment's scratch; products have workspaces and packed weights
#pragma once

#include "compile/context.h"
#include "compile/lower/expanded.h"
#include "compile/schedule/stage_share.h"

namespace tessera {

Expanded expand(Graph graph, const Context& context, const StagesOfBlocks& holders);

}  // namespace tessera
