// The relative costs of a model's layers, and the division of layers into pipeline chunks by cost.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/program.h"

namespace tessera::compile {

// Returns the number of layers of each chunk that makes the most expensive chunk as cheap as
// possible, then the division as even as possible. The first chunk also has the embedding, the last
// one the head; a layer costs 1.
std::vector<int64_t> spread_layers(int64_t layers, int64_t chunks, double embedding, double head);
// The same for layers with the given costs, for example an encoder's and a decoder's.
std::vector<int64_t> spread_layers(const std::vector<double>& layers, int64_t chunks,
                                   double embedding, double head);

// Forward FLOPs of each layer of all stacks, of the embedding and of the head, relative to the
// cheapest layer. Blocks before a stack count with its first layer.
struct LayerCosts {
  std::vector<double> layers;
  double embedding = 0, head = 0;
  auto operator<=>(const LayerCosts&) const = default;
};
LayerCosts shares_of(const IdVector<BlockId, Block>& blocks, const ValueVector& values);

// Return the layers of each chunk, as even as possible, and the costs of chunks for
// PipelineShape::cost.
std::vector<int64_t> spread_layers(const LayerCosts& shares, int64_t chunks);
std::vector<int64_t> chunk_costs(const LayerCosts& shares, const std::vector<int64_t>& layers);

}  // namespace tessera::compile
