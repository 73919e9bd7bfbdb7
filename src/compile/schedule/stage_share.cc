#include "compile/schedule/stage_share.h"

#include <algorithm>

namespace tessera {

int64_t StageShare::first_layer(int64_t chunk) const {
  int64_t first = 0;
  for (int64_t c = 0; c < chunk; ++c) first += layers[static_cast<size_t>(c)];
  return first;
}

bool StageShare::holds(const Block& block, const BlockRange& range) const {
  if (block.input == kNone) return stage == 0;
  if (block.output == kNone) return stage == pipeline.stages - 1;
  for (int64_t c = stage; c < pipeline.chunks(); c += pipeline.stages) {
    const int64_t first = first_layer(c), end = first + layers[static_cast<size_t>(c)];
    // What stands before a layer is where that layer is.
    const int64_t last = block.is_stack() ? range.last : range.first + 1;
    if (std::max(first, range.first) < std::min(end, last)) return true;
  }
  return false;
}

IdVector<BlockId, BlockRange> block_ranges(const IdVector<BlockId, Block>& blocks) {
  IdVector<BlockId, BlockRange> ranges;
  int64_t at = 0;
  for (const Block& b : blocks) {
    const int64_t layers = b.is_stack() ? b.layers : 0;
    ranges.push_back({at, at + layers});
    at += layers;
  }
  return ranges;
}

}  // namespace tessera
