// Reads tokens of several texts with a model that one rank holds. The keys and values of all texts
// share one cache of a fixed number of slots in planned memory.
//
// On a CPU, the logits of a text have the same bits whichever texts are read with it, in whatever
// pieces it is read: every kernel sums a row in one order (kernels/cpu/tiled_product.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "eval/language_model.h"
#include "eval/slot_decoder.h"

namespace tessera::eval {

class BatchDecoder final : public SlotDecoder {
 public:
  // Throws Error if the model has an encoder, or if the options are out of range.
  BatchDecoder(checkpoint::CheckpointReader& checkpoint, const ModelOptions& model,
               const SlotOptions& options);

  int64_t slots() const override { return std::ssize(positions_); }
  int64_t context() const override { return context_; }
  int64_t vocabulary() const override { return model_.padded_vocabulary(); }
  int64_t position(int64_t slot) const override { return positions_[static_cast<size_t>(slot)]; }
  void rewind(int64_t slot, int64_t tokens) override;
  int64_t group_of(int64_t slot) const override;
  void step(std::span<const SlotToken> rows) override;
  std::span<const float> logits(int64_t slot) const override;
  PromptRead read(int64_t slot, std::span<const int32_t> tokens, LogitsOf which) override;

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
  int64_t context_;
  int64_t chunk_ = 1;               // tokens of a prompt that one program reads
  std::vector<Range> steps_;        // by number of rows, ascending
  std::vector<Range> chunks_;       // per slot
  std::vector<int64_t> positions_;  // per slot
  std::unique_ptr<runtime::Engine> machine_;
  int64_t read_from_ = 0;  // the slot of the first row of logits_
  std::span<const float> logits_;
};

}  // namespace tessera::eval
