#include "compile/schedule/stage_blocks.h"

#include <algorithm>

namespace tessera {

StageBlocks::StageBlocks(const IdVector<BlockId, Block>& blocks, const StageShare& share,
                         bool encoded)
    : blocks_(blocks), share_(share), encoded_(encoded), ranges_(block_ranges(blocks)), first_{0} {
  for (const int64_t n : share_.layers) first_.push_back(first_.back() + n);
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
  const BlockRange range = ranges_[block];
  std::vector<int64_t> own;
  for (const int64_t l : layers())
    if (l >= range.first && l < range.last) own.push_back(l - range.first);
  return own;
}

std::vector<Visit> StageBlocks::visits(int64_t chunk) const {
  std::vector<Visit> visits;
  const int64_t first = first_layer(chunk), end = end_layer(chunk);
  for (const BlockId b : blocks_.ids()) {
    const BlockRange r = ranges_[b];
    const Block& block = blocks_[b];
    if (is_past(b)) continue;
    if (block.input == kNone) {
      if (chunk == 0) visits.push_back({b, kNone, kNone, {kNone, 0}});
    } else if (block.output == kNone) {
      // Reads what the last stack leaves.
      if (is_last(chunk))
        visits.push_back({b, kNone, kNone, {blocks_[BlockId(b.number() - 1)].layers, kNone}});
    } else if (!block.is_stack()) {
      // Between two stacks.
      if (first <= r.first && r.first < end) visits.push_back({b, kNone, kNone, {r.first, 0}});
    } else {
      for (int64_t l = std::max(first, r.first); l < std::min(end, r.last); ++l)
        visits.push_back({b, l - r.first, l, {l - r.first, l - r.first + 1}});
    }
  }
  return visits;
}

}  // namespace tessera
