// The last block pass: Graph → segments and frame kinds.
//   before  values have roles; blocks have lists of ops
//   after   every value that outlives its segment has a frame kind and an offset in it; every other
//           one an offset in its segment's scratch; products have workspaces and packed weights
#pragma once

#include <string>
#include <vector>

#include "compile/compile.h"
#include "compile/passes.h"

namespace tessera {

// The segments a block has; kNone where it has none.
struct BlockSegments {
  SegmentId forward = kNone;   // saves what the backward reads
  SegmentId light = kNone;     // saves nothing
  SegmentId again = kNone;     // saves, but gives no output: before the backward of a light layer
  SegmentId backward = kNone;  // of a loss block: forward and backward in one
  SegmentId pack = kNone;
};

// The segments that update one group of weights: those of a block, or those several blocks share.
struct GroupSegments {
  std::string name;
  bool per_layer = false;
  SegmentId squares = kNone, update = kNone;
};

struct Expanded {
  Program program;  // no frames and no calls yet
  std::vector<Block> blocks;
  std::vector<BlockSegments> segments;  // of each block
  std::vector<GroupSegments> groups;
  SegmentId clear = kNone, clip = kNone;
};

Expanded expand(Graph graph, const CompileRequest& request, const Recompute& recompute,
                const Target& target);

}  // namespace tessera
