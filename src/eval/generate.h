// Autoregressive generation of one text: one token after another from a decoder. text_batch.h
// generates many texts at once, but only with models without an encoder.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "eval/language_model.h"
#include "eval/sampling.h"

namespace tessera::eval {

struct GenerateOptions {
  SamplingOptions sampling;
  int64_t max_tokens = 100;
  int64_t vocabulary = 0;  // only ids below it are generated, not padding of the table; 0: all
  uint64_t seed = 0;
  std::vector<int32_t> stops;  // ids that end the text and are not part of it
  // Called after each token with all new tokens; true ends the text, which includes them.
  std::function<bool(std::span<const int32_t>)> enough = {};
};

// Returns the new tokens, and calls `each` with every one when it is generated. Throws Error if the
// prompt is empty or does not leave room for `max_tokens` in the model's context, and NumericError
// if a logit is not finite.
std::vector<int32_t> generate(Decoder& decoder, std::span<const int32_t> prompt,
                              const GenerateOptions& options,
                              const std::function<void(int32_t)>& each = {});

}  // namespace tessera::eval
