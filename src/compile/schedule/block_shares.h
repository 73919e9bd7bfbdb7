// What the layers of a model cost beside each other, and how a pipeline spreads them by it.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/program.h"

namespace tessera::compile {

// How many layers each chunk gets so that the costliest chunk is as cheap as possible, then
// spreads the rest as evenly as possible. The first chunk also has the embedding, the last the
// head; a layer costs 1.
std::vector<int64_t> spread_layers(int64_t layers, int64_t chunks, double embedding, double head);
// The same where layers cost as listed: an encoder's and a decoder's.
std::vector<int64_t> spread_layers(const std::vector<double>& layers, int64_t chunks,
                                   double embedding, double head);

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

}  // namespace tessera::compile
