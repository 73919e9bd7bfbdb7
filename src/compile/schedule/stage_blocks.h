// What one stage has of the model, and what each of its chunks computes in which order.
#pragma once

#include <vector>

#include "compile/schedule/call_list.h"
#include "compile/schedule/stage_share.h"

namespace tessera {

// A block, or one layer of a stack, as a chunk comes to it.
struct Visit {
  BlockId block;
  int64_t layer = kNone;      // in its stack; kNone: a block that is no stack
  int64_t among_all = kNone;  // the same numbered through all stacks
  Positions at;
};

class StageBlocks {
 public:
  // `encoded`: what an encoder does is behind the program.
  StageBlocks(const IdVector<BlockId, Block>& blocks, const StageShare& share, bool encoded);

  bool holds(BlockId block) const { return share_.holds(blocks_[block], ranges_[block]); }
  bool holds(const WeightGroup& group) const;
  // Those that an encoder's program has run before.
  bool is_past(BlockId block) const {
    return encoded_ && blocks_[block].to == HiddenStream::kSource;
  }
  int64_t first_layer(int64_t chunk) const { return first_[static_cast<size_t>(chunk)]; }
  int64_t end_layer(int64_t chunk) const { return first_layer(chunk + 1); }
  bool is_last(int64_t chunk) const { return chunk + 1 == share_.pipeline.chunks(); }

  // The stage's layers of all stacks, numbered through; of one stack, by its own numbers.
  std::vector<int64_t> layers() const;
  std::vector<int64_t> layers(BlockId block) const;

  // In the order of the forward.
  std::vector<Visit> visits(int64_t chunk) const;

 private:
  const IdVector<BlockId, Block>& blocks_;
  const StageShare& share_;
  bool encoded_;
  IdVector<BlockId, BlockRange> ranges_;
  std::vector<int64_t> first_;  // layer of each chunk, and where the last ends
};

}  // namespace tessera
