// What the layers of a model cost beside each other, and how a pipeline spreads them by it.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/program.h"

namespace tessera {

// Operations of the forward of each layer of all stacks, of the embedding and of the head, in those
// of the cheapest layer. What stands before a stack goes with its first layer.
struct BlockShares {
  std::vector<double> layers;
  double embedding = 0, head = 0;
  auto operator<=>(const BlockShares&) const = default;
};
BlockShares shares_of(const IdVector<BlockId, Block>& blocks, const ValueVector& values);

// The layers of each chunk, as even as can be, and what chunks cost for PipelineShape::cost.
std::vector<int64_t> spread_layers(const BlockShares& shares, int64_t chunks);
std::vector<int64_t> chunk_costs(const BlockShares& shares, const std::vector<int64_t>& layers);

}  // namespace tessera
