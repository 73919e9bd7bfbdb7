// Writing text: token after token from a decoder.
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
  int64_t vocabulary = 0;  // only ids below it: those behind pad the model's table; 0: all
  uint64_t seed = 0;
  std::vector<int32_t> stops;  // any of them ends the text; it is not part of it
  // Asked after each token with all new ones; true ends the text, of which they are part.
  std::function<bool(std::span<const int32_t>)> enough = {};
};

// The new tokens. `each` is called with every one as it comes. Throws Error if the prompt is empty
// or does not leave room for one token.
std::vector<int32_t> generate(Decoder& decoder, std::span<const int32_t> prompt,
                              const GenerateOptions& options,
                              const std::function<void(int32_t)>& each = {});

// ---- How a person asks for the next token, and the random number that chooses it. The choice
// itself is kernels/sample.h.

// Throws Error, naming the option and what it may be, where one is out of range: temperature ≥ 0,
// top_k ≥ 0, 0 < top_p ≤ 1.
void validate(const kernels::Sampling& sampling);

// The uniform number in [0, 1) for the token at `position` of sequence `sequence` under `seed`:
// the same whoever draws it and in whatever batch.
double sampling_uniform(uint64_t seed, uint64_t sequence, uint64_t position);

}  // namespace tessera::eval
