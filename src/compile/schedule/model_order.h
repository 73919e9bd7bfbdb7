// The blocks and layers of a model in the order in which its forward computes them.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/program.h"

namespace tessera {

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

}  // namespace tessera
