// Reads tokens of several texts at once and returns the logits of the next token of each. A text
// has one slot; texts begin and end independently of each other.
#pragma once

#include <cstdint>
#include <span>

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

// The tokens of a prompt whose logits are needed: the last one that is read, or each.
enum class LogitsOf : uint8_t { kLast, kEach };

struct PromptRead {
  int64_t tokens = 0;             // n, the number that was read
  std::span<const float> logits;  // kEach: [n, V]; kLast: those of the last token are at the end
};

class SlotDecoder {
 public:
  virtual ~SlotDecoder() = default;
  SlotDecoder() = default;
  SlotDecoder(const SlotDecoder&) = delete;
  SlotDecoder& operator=(const SlotDecoder&) = delete;

  virtual int64_t slots() const = 0;
  virtual int64_t context() const = 0;
  virtual int64_t vocabulary() const = 0;  // V
  // Returns the number of tokens that the slot's text has.
  virtual int64_t position(int64_t slot) const = 0;
  // Keeps only the first `tokens` tokens of a slot's text. REQUIRES: it has at least that number.
  virtual void rewind(int64_t slot, int64_t tokens) = 0;

  // One step can read texts whose slots are in the same group. Slots are grouped by number.
  virtual int64_t group_of(int64_t slot) const = 0;
  // Appends one token to each text, in ascending order of the slots, which are of one group and
  // not full. Throws Error for ids outside the vocabulary.
  virtual void step(std::span<const SlotToken> rows) = 0;
  // Returns the logits [V] of the next token in a slot that the last step() read, valid until the
  // next call of step() or read().
  virtual std::span<const float> logits(int64_t slot) const = 0;

  // Appends the first tokens of `tokens` to a slot's text, at least one. The decoder chooses how
  // many. The logits are valid until the next call. REQUIRES: tokens is not empty and fits in the
  // slot.
  virtual PromptRead read(int64_t slot, std::span<const int32_t> tokens, LogitsOf which) = 0;
};

}  // namespace tessera::eval
