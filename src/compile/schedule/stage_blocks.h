// What one stage has of the model, and what each of its chunks computes in which order.
#pragma once

#include <vector>

#include "compile/lower/expand.h"
#include "compile/schedule/call_list.h"
#include "compile/schedule/stage_share.h"

namespace tessera::compile {

class StageBlocks {
 public:
  // `encoded`: an encoder's program has run before this one.
  StageBlocks(const IdVector<BlockId, Block>& blocks, const StageShare& share, bool encoded);

  bool holds(BlockId block) const { return holds_[block]; }
  bool holds(const WeightGroup& group) const;
  // Those that an encoder's program has run before.
  bool is_past(BlockId block) const {
    return encoded_ && blocks_[block].to == HiddenStream::kSource;
  }
  int64_t first_layer(int64_t chunk) const { return first_[chunk]; }
  int64_t end_layer(int64_t chunk) const { return first_layer(chunk + 1); }
  bool is_last(int64_t chunk) const { return chunk + 1 == share_.pipeline.chunks(); }

  // The stage's layers of all streams, numbered through; of one stack, by their own numbers.
  std::vector<int64_t> layers() const;
  std::vector<int64_t> layers(BlockId block) const;

  // In the order of the forward.
  std::vector<Visit> visits(int64_t chunk) const;

 private:
  const IdVector<BlockId, Block>& blocks_;
  const StageShare& share_;
  bool encoded_;
  std::vector<std::vector<Visit>> chunks_;
  std::vector<int64_t> first_;  // layer of each chunk, and where the last ends
  IdVector<BlockId, bool> holds_;
};

// In the order of the kinds, logits and batches last: programs that differ in the number of tokens
// or micro-batches agree on all before them. Offsets are multiples of `alignment`.
void add_state(Expanded& expanded, const StageBlocks& own, int64_t microbatches, int64_t alignment,
               CallList& calls);

}  // namespace tessera::compile
