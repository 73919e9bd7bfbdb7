// Reads tokens of several texts with a model that one rank holds, or that several ranks hold
// together. The keys and values of all texts share one cache of a fixed number of slots in planned
// memory. Ranks divide the cache as they divide the model: tensor-parallel ranks have some of the
// heads, pipeline stages the layers that they compute, data-parallel ranks some of the slots.
//
// On a CPU, the logits of a text have the same bits whichever texts are read with it, in whatever
// pieces it is read: every kernel sums a row in one order (kernels/cpu/tiled_product.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "eval/decode_programs.h"
#include "eval/gathered_logits.h"
#include "eval/language_model.h"

namespace tessera::eval {

struct SlotOptions {
  int64_t slots = 8;    // texts at once
  int64_t context = 0;  // positions per slot; 0: the model's context
};

// Returns the context of slots for texts of at most that number of tokens: not more than the
// model's.
int64_t context_for(const checkpoint::CheckpointReader& checkpoint, int64_t tokens);

// Returns the bytes of memory that a BatchDecoder of these sizes needs on this rank.
int64_t decoder_bytes(const model::ModelConfig& model, const ModelOptions& options,
                      const SlotOptions& slots);

// A token of the text in a slot.
struct SlotToken {
  int64_t slot = 0;
  int32_t token = 0;
};

// The tokens of a prompt whose logits are needed: the last one that is read, or each.
enum class LogitsOf : uint8_t { kLast, kEach };

struct PromptRead {
  int64_t tokens = 0;             // n, the number that was read
  std::span<const float> logits;  // kEach: [n, V]; kLast: the last token's logits are at the end
};

// A text has one slot; texts begin and end independently of each other. With model.world set, all
// functions that read tokens are collective: all ranks read the same tokens in the same order, and
// get the same logits.
class BatchDecoder {
 public:
  // Throws Error if the model has an encoder, or if the options are out of range.
  BatchDecoder(checkpoint::CheckpointReader& checkpoint, const ModelOptions& model,
               const SlotOptions& options);

  // As in ScoreModel. A new text must begin in every slot after it (rewind).
  bool replace_adapters(checkpoint::CheckpointReader& checkpoint);

  int64_t slots() const { return slots_; }
  int64_t context() const { return cache_.context; }
  int64_t vocabulary() const { return model_.padded_vocabulary(); }  // V
  // Returns the number of tokens that the slot's text has.
  int64_t position(int64_t slot) const { return positions_[static_cast<size_t>(slot)]; }
  // Keeps only the first `tokens` tokens of a slot's text. REQUIRES: it has at least that number.
  void rewind(int64_t slot, int64_t tokens);

  // One step can read texts whose slots are in the same group. Slots are grouped by number.
  int64_t group_of(int64_t slot) const;
  // Appends one token to each text, in ascending order of the slots, which are of one group and
  // not full. Throws Error for ids outside the vocabulary.
  void step(std::span<const SlotToken> rows);
  // Returns the logits [V] of the next token in a slot that the last step() read, valid until the
  // next call of step() or read().
  std::span<const float> logits(int64_t slot) const;

  // Appends a prefix of `tokens` to a slot's text. The decoder chooses its length, at least one
  // token. The logits are valid until the next call. REQUIRES: tokens is not empty and fits in the
  // slot.
  PromptRead read(int64_t slot, std::span<const int32_t> tokens, LogitsOf which);

  // Return the bytes on this rank: of the whole arena (weights, cache and activations), of the
  // cache, and of the weights.
  int64_t memory_bytes() const { return machine_->planned_bytes(); }
  int64_t cache_bytes() const;
  int64_t weight_bytes() const;

 private:
  // The row of logits_ that has the logits of a slot.
  struct ReadSlot {
    int64_t slot = 0, row = 0;
  };
  LogitsPlace place_of(const DecodeRange& r, int64_t slot, int64_t token) const;
  void run(const DecodeRange& r, std::span<const int32_t> tokens);
  void take_logits(const DecodeRange& r, std::span<const LogitsPlace> places);

  model::ModelConfig model_;
  compile::AdapterPolicy adapters_;
  CacheRows cache_;
  int64_t slots_;
  comm::World* world_;
  DecodeRanges ranges_;
  std::vector<int64_t> positions_;  // per slot, and 0 for the other rows of all ranks
  std::unique_ptr<runtime::Engine> machine_;
  GatheredLogits gathered_;
  std::vector<ReadSlot> read_;  // by the last step
  std::span<const float> logits_;
};

}  // namespace tessera::eval
