// The end of shard: what is at one place and wanted at another is converted (Builder::convert).
#pragma once

#include <vector>

#include "compile/graph/choose_signature.h"
#include "compile/graph/graph_passes.h"

namespace tessera {

// An op with the places it wants of its inputs.
struct Planned {
  Op op;
  std::vector<Sharding> wanted;
};

// Makes the planned ops the forward of the block: before each, its inputs that are at another place
// than it wants are converted, each value once for each place; what leaves the block goes home.
// `per`: of what the block computes.
void insert_conversions(Graph& graph, Block& block, std::vector<Planned>& plans,
                        const DefaultPlaces& home, uint8_t per);

}  // namespace tessera
