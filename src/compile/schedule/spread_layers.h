// Spreads the layers of a model over the chunks of a pipeline.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

// How many layers each chunk gets so that the costliest chunk is as cheap as possible, then
// spreads the rest as evenly as possible. The first chunk also has the embedding, the last the
// head; a layer costs 1.
std::vector<int64_t> spread_layers(int64_t layers, int64_t chunks, double embedding, double head);
// The same where layers cost as listed: an encoder's and a decoder's.
std::vector<int64_t> spread_layers(const std::vector<double>& layers, int64_t chunks,
                                   double embedding, double head);

}  // namespace tessera
