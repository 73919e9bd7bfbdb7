// Choosing the next token from logits.
//
//   p = softmax(logits / temperature); only the top_k largest keep theirs; of these, in falling
//   order, only the shortest row whose sum reaches top_p (Holtzman et al. 2020, nucleus sampling),
//   at least one. The token is drawn from what is left with one uniform number.
//
// Temperature 0 is the largest logit. Equal logits stand in the order of their ids, everywhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera {

struct SamplingOptions {
  double temperature = 1.0;
  int64_t top_k = 0;   // 0: all
  double top_p = 1.0;  // 1: all
};

// Throws Error, naming the option, where one is out of range: temperature ≥ 0, top_k ≥ 0,
// 0 < top_p ≤ 1.
void validate(const SamplingOptions& options);

// The largest; the first of equals. REQUIRES: not empty. NaN is never the largest.
int32_t arg_max(std::span<const float> logits);

// `uniform` in [0, 1). REQUIRES: not empty, options valid. Throws Error where no logit is finite.
int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, double uniform);

// The uniform number of the token at `position` of sequence `sequence` under `seed`: the same
// whoever draws it and in whatever batch.
double sampling_uniform(uint64_t seed, uint64_t sequence, uint64_t position);

}  // namespace tessera
