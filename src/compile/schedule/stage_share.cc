// Divides the layers of the model, in their order, among the chunks of a pipeline. The embedding is
// on the first stage, the head on the last.
#include "compile/schedule/stage_share.h"

namespace tessera {

std::vector<std::vector<Visit>> StageShare::chunks(const IdVector<BlockId, Block>& blocks) const {
  std::vector<std::vector<Visit>> of(layers.size());
  size_t chunk = 0;
  int64_t end = layers.front();
  for (const Visit& v : model_order(blocks)) {
    for (; v.before >= end && chunk + 1 < layers.size(); end += layers[chunk]) ++chunk;
    const Block& block = blocks[v.block];
    if (block.input == kNone)
      of.front().push_back(v);
    else
      of[block.output == kNone ? of.size() - 1 : chunk].push_back(v);
  }
  return of;
}

}  // namespace tessera
