// Autoregressive generation: one token after another from a decoder.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "eval/language_model.h"
#include "kernels/sample.h"

namespace tessera::eval {

struct GenerateOptions {
  kernels::Sampling sampling;
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

// ---- Sampling options and random numbers. kernels/sample.h selects the token.

// Throws Error that names the option and its range if one is out of range: temperature ≥ 0,
// top_k ≥ 0, 0 < top_p ≤ 1.
void validate(const kernels::Sampling& sampling);

// Returns the uniform random number in [0, 1) for the token at `position` of sequence `sequence`.
// It depends on nothing else but the seed, so batching does not change a text.
double sampling_uniform(uint64_t seed, uint64_t sequence, uint64_t position);

}  // namespace tessera::eval
