// Reads tokens of several texts at once and returns the logits of the next token of each. The keys
// and values of all texts share one cache of a fixed number of slots in planned memory; a text has
// one slot, and texts begin and end independently of each other.
//
// On a CPU, the logits of a text have the same bits whichever texts are read with it, in whatever
// pieces it is read: every kernel sums a row in one order (kernels/cpu/tiled_product.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "eval/language_model.h"

namespace tessera::eval {

struct SlotOptions {
  int64_t slots = 8;    // texts at once
  int64_t context = 0;  // positions per slot; 0: the model's context
};

// A token of the text in a slot.
struct SlotToken {
  int64_t slot = 0;
  int32_t token = 0;
};

class BatchDecoder {
 public:
  // Throws Error if the model has an encoder, or if the options are out of range.
  BatchDecoder(checkpoint::CheckpointReader& checkpoint, const ModelOptions& model,
               const SlotOptions& options);

  int64_t slots() const { return std::ssize(positions_); }
  int64_t context() const { return model_.context; }
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

  // Appends the first tokens of `tokens` to a slot's text: as many as one program reads. Returns
  // the logits [n, V] after each of them, valid until the next call; n is the number of tokens
  // read. REQUIRES: tokens is not empty and fits in the slot.
  std::span<const float> read(int64_t slot, std::span<const int32_t> tokens);

  // Returns the bytes of the arena that weights, cache and activations share.
  int64_t memory_bytes() const { return machine_->planned_bytes(); }
  int64_t cache_bytes() const;
  int64_t weight_bytes() const;

 private:
  // Reads `tokens` tokens of each of the slots first … first + rows - 1.
  struct Range {
    int64_t first = 0, rows = 0, tokens = 1;
    size_t program = 0;
  };
  const Range& range_for(int64_t first, int64_t last) const;
  void run(const Range& r, std::span<const int32_t> tokens);

  model::ModelConfig model_;
  int64_t chunk_ = 1;               // tokens of a prompt that one program reads
  std::vector<Range> steps_;        // by number of rows, ascending
  std::vector<Range> chunks_;       // per slot
  std::vector<int64_t> positions_;  // per slot
  std::unique_ptr<runtime::Engine> machine_;
  int64_t read_from_ = 0;  // the slot of the first row of logits_
  std::span<const float> logits_;
};

}  // namespace tessera::eval
