// Continuous batching: generates many texts with the slots of one decoder. A text gets a slot
// as soon as one is free and frees it as soon as it ends; prompts are read in chunks between the
// steps of the texts that are being written, so no text waits for the end of another.
//
// A text depends only on its request, not on the texts that are generated with it (on a CPU bit for
// bit; a GPU's GEMMs may round differently for different batch sizes).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "eval/batch_decoder.h"
#include "eval/sampling.h"

namespace tessera::eval {

// How a text ended.
enum class Ending : uint8_t {
  kStop,       // a stop id, or the listener had enough
  kLength,     // max_tokens, or the context is full
  kCancelled,  // cancel()
  kError       // the logits were not finite
};
constexpr size_t count_of(Ending) { return static_cast<size_t>(Ending::kError) + 1; }

struct NewToken {
  int32_t token = 0;
  int64_t index = 0;       // in prompt and output together
  bool in_prompt = false;  // only if TextRequest::prompt_probabilities
  double log_probability =
      0;  // if probabilities were asked for; not of the first token of a prompt
  std::vector<TokenProbability> top = {};
};

struct TextRequest {
  std::vector<int32_t> prompt;  // not empty
  SamplingOptions sampling;
  int64_t max_tokens = 16, min_tokens = 0;  // new tokens; no stop id before min_tokens
  uint64_t seed = 0, sequence = 0;          // see sampling_uniform()
  std::vector<int32_t> stops;               // ids that end the text and are not part of it
  int64_t top_probabilities = -1;           // alternatives per token; 0: its own; −1: none
  bool prompt_probabilities = false;        // the tokens of the prompt are reported too
  // Called with each token; false: the text ends with this token. Must not throw.
  std::function<bool(const NewToken&)> each;
  std::function<void(Ending)> end;  // called once, after the last token. Must not throw.
};

// Throws Error if the request is out of range for a decoder: an empty or too long prompt,
// ids outside the vocabulary, sampling options.
void validate(const TextRequest& request, const BatchDecoder& decoder);

struct BatchCounts {
  int64_t prompt_tokens = 0, reused_tokens = 0;  // read, and of a prompt found in a slot
  int64_t output_tokens = 0, steps = 0;
};

class TextBatch {
 public:
  // Only ids below `vocabulary` are generated (0: all). The decoder must outlive the batch.
  explicit TextBatch(BatchDecoder& decoder, int64_t vocabulary = 0);

  bool has_room() const { return active() < decoder_.slots(); }
  int64_t active() const;
  // Begins a text and returns its slot. REQUIRES: has_room(), and validate() passes.
  int64_t add(TextRequest request);
  // Ends the text of a slot, which gets Ending::kCancelled. No-op if it has none.
  void cancel(int64_t slot);
  // Reads a chunk of each prompt that is not read yet, at most `kChunksPerStep`, and generates one
  // token of every other text. Does nothing if there is no text.
  void step();
  const BatchCounts& counts() const { return counts_; }

 private:
  struct Slot {
    bool used = false;
    TextRequest request;
    std::vector<int32_t> tokens;  // read into the slot; kept after the text for its prefix
    int64_t prompt_tokens = 0;    // the whole prompt; kept after the text
    int64_t read = 0;             // tokens of the prompt that were read
    int64_t written = 0;          // tokens of the output
    int32_t next = 0;             // the newest token, not read yet
    int64_t last_used = 0;
    std::vector<Sampler> sampler;  // one if used
  };

  void read_prompt(int64_t slot);
  void report_prompt(Slot& s, std::span<const float> logits, int64_t first);
  void take(int64_t slot, std::span<const float> logits);
  void end(int64_t slot, Ending how);
  int64_t best_slot(std::span<const int32_t> prompt) const;

  BatchDecoder& decoder_;
  int64_t vocabulary_;
  std::vector<Slot> slots_;
  int64_t next_prompt_ = 0, clock_ = 0;
  BatchCounts counts_;
};

}  // namespace tessera::eval
