// Reads tokens of several texts with a model that several ranks hold together, in any layout.
// There is no cache: a step computes the rows of all texts again, so a text of n tokens costs about
// n times what it costs with a cache.
#pragma once

#include <vector>

#include "eval/language_model.h"
#include "eval/slot_decoder.h"

namespace tessera::eval {

// Returns the context of the slots for texts of at most `tokens` tokens: a little more, since rows
// have a few lengths only (row_length), but not more than the model's.
int64_t divided_context(const checkpoint::CheckpointReader& checkpoint, int64_t tokens);

// Collective: all ranks read the same tokens in the same order, and get the same logits.
class DividedDecoder final : public SlotDecoder {
 public:
  // Has fewer slots than options.slots where the rows of all of them would need too much memory.
  // REQUIRES: model.world is set. Throws Error if the model has an encoder, or if the options are
  // out of range.
  DividedDecoder(checkpoint::CheckpointReader& checkpoint, const ModelOptions& model,
                 const SlotOptions& options);

  int64_t slots() const override { return std::ssize(positions_); }
  int64_t context() const override { return context_; }
  int64_t vocabulary() const override { return vocabulary_; }
  int64_t position(int64_t slot) const override { return positions_[static_cast<size_t>(slot)]; }
  void rewind(int64_t slot, int64_t tokens) override;
  int64_t group_of(int64_t) const override { return 0; }
  void step(std::span<const SlotToken> rows) override;
  std::span<const float> logits(int64_t slot) const override;
  PromptRead read(int64_t slot, std::span<const int32_t> tokens, LogitsOf which) override;

 private:
  // A token whose logits are needed.
  struct Place {
    int64_t slot = 0, position = 0;
  };
  void append(int64_t slot, int32_t token);
  // Computes the logits at these places, on all ranks.
  void run(std::vector<Place> places);

  comm::World& world_;
  int64_t context_, vocabulary_;
  LogitsModel model_;
  std::vector<int32_t> tokens_;     // [rows of the model, context]
  std::vector<int64_t> positions_;  // per slot
  std::vector<Place> places_;       // the rows of logits_
  std::vector<double> gathered_;
  std::vector<float> logits_;  // [places, V]
};

}  // namespace tessera::eval
