// The part of the model on one stage, and the order in which each of its chunks computes.
#pragma once

#include <vector>

#include "compile/lower/lower.h"
#include "compile/schedule/call_list.h"
#include "compile/schedule/stage_layers.h"

namespace tessera::compile {

class StageBlocks {
 public:
  // `reuse_encoder_output`: the program of the encoder has run before this one.
  StageBlocks(const IdVector<BlockId, Block>& blocks, const StageLayers& share,
              bool reuse_encoder_output);

  bool holds(BlockId block) const { return holds_[block]; }
  bool holds(const WeightGroup& group) const;
  // Returns true for blocks that the program of the encoder has already run.
  bool is_past(BlockId block) const {
    return reuse_encoder_output_ && blocks_[block].to == HiddenStream::kSource;
  }
  int64_t first_layer(int64_t chunk) const { return first_[chunk]; }
  int64_t end_layer(int64_t chunk) const { return first_layer(chunk + 1); }
  bool is_last(int64_t chunk) const { return chunk + 1 == share_.pipeline.chunks(); }

  // Return the stage's layers: of all streams, with consecutive numbers, or of one stack, with its
  // own numbers.
  std::vector<int64_t> layers() const;
  std::vector<int64_t> layers(BlockId block) const;

  // Returns the blocks of a chunk in forward order.
  std::vector<ChunkBlock> visits(int64_t chunk) const;

 private:
  const IdVector<BlockId, Block>& blocks_;
  const StageLayers& share_;
  bool reuse_encoder_output_;
  std::vector<std::vector<ChunkBlock>> chunks_;
  std::vector<int64_t> first_;  // first layer of each chunk, then the end of the last one
  IdVector<BlockId, bool> holds_;
};

// Adds the state buffers in the order of their kinds, logits and batches last, so that programs
// that differ in the number of tokens or micro-batches agree on all others. Offsets are multiples
// of `alignment`.
void add_state(LoweredGraph& lowered, const StageBlocks& own, int64_t microbatches,
               int64_t alignment, CallList& calls);

}  // namespace tessera::compile
