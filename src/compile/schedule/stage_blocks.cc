// The blocks and layers of one stage. Layers are numbered over all stacks; with S stages, stage s
// has chunks s, s + S, s + 2 S, …, and a chunk has consecutive layers.
#include "compile/schedule/stage_blocks.h"

#include <algorithm>

namespace tessera {

StageBlocks::StageBlocks(const IdVector<BlockId, Block>& blocks, const StageShare& share,
                         bool encoded)
    : blocks_(blocks),
      share_(share),
      encoded_(encoded),
      chunks_(share.chunks(blocks)),
      first_{0},
      holds_(blocks.size(), false) {
  for (const int64_t n : share_.layers) first_.push_back(first_.back() + n);
  for (size_t c = static_cast<size_t>(share_.stage); c < chunks_.size();
       c += static_cast<size_t>(share_.pipeline.stages))
    for (const Visit& v : chunks_[c]) holds_[v.block] = true;
}

bool StageBlocks::holds(const WeightGroup& group) const {
  return std::any_of(group.blocks.begin(), group.blocks.end(), [&](BlockId b) { return holds(b); });
}

std::vector<int64_t> StageBlocks::layers() const {
  std::vector<int64_t> own;
  for (int64_t c = share_.stage; c < share_.pipeline.chunks(); c += share_.pipeline.stages)
    for (int64_t l = first_layer(c); l < end_layer(c); ++l) own.push_back(l);
  return own;
}

std::vector<int64_t> StageBlocks::layers(BlockId block) const {
  std::vector<int64_t> own;
  for (int64_t c = share_.stage; c < share_.pipeline.chunks(); c += share_.pipeline.stages)
    for (const Visit& v : chunks_[c])
      if (v.block == block && v.layer != kNone) own.push_back(v.layer);
  return own;
}

std::vector<Visit> StageBlocks::visits(int64_t chunk) const {
  std::vector<Visit> visits = chunks_[chunk];
  std::erase_if(visits, [&](const Visit& v) { return is_past(v.block); });
  return visits;
}

}  // namespace tessera
