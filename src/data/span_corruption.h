// Span corruption (Raffel et al. 2020, T5): spans of the text are removed, each is replaced by a
// sentinel, and the decoder predicts them.
//
//   tokens    We hold these truths to be self evident
//   inputs    We hold <0> to be <1> </s>
//   targets   <0> these truths <1> self evident </s>
#pragma once

#include <cstdint>
#include <span>

namespace tessera::data {

struct SpanCorruption {
  double noise_density = 0.15;  // share of the tokens that are removed (noise)
  double mean_span = 3;         // mean length of a removed span, in tokens
};

// From T tokens, n = round(T · density) are removed (at least 1, at most T − 1), in
// s = max(round(n / mean), 1) spans; halves round to even. All samples have the same lengths:
//   inputs T − n + s + 1, targets n + s + 1, each including its end-of-text token.
struct SpanLengths {
  int64_t tokens = 0;  // T
  int64_t noise = 0;   // n
  int64_t spans = 0;   // s spans of noise, and s kept spans
  int64_t inputs = 0, targets = 0;
};
SpanLengths span_lengths(int64_t tokens, const SpanCorruption& how);

// Returns the lengths for the largest T whose inputs have at most `inputs` tokens, as T5's
// random_spans_helper does (including its rule that at a density of one half, targets are not
// longer than inputs). Throws Error if the density is not in (0, 1), if the mean is below 1, or if
// `inputs` is too small for any text.
SpanLengths fit_spans(int64_t inputs, const SpanCorruption& how);

// Throws Error if a sample has more spans than the tokenizer has sentinels (T5: 100).
void require_sentinels(const SpanLengths& lengths, int64_t sentinels);

// The ids of sentinels descend from the first one: <extra_id_0> is the last id of T5's vocabulary.
struct SpanTokens {
  int32_t first_sentinel = 0;
  int32_t end_of_text = 1;
};

// Writes the lengths of the spans to `out` [2 · spans]: kept, noise, kept, …, noise. Noise is
// divided at a random choice of s − 1 of its n − 1 inner boundaries, all equally likely, and so are
// the kept tokens. For the choice, the flags [i < s − 1] are shuffled: for i = n − 2 … 1, flag i is
// exchanged with flag ⌊u · (i + 1) / 2^64⌋, where u is the first 64 bits of Philox(key, index =
// sample, lane = i) and the key is hash_name("spans.noise" or "spans.kept", seed). So the result
// depends only on (seed, sample).
void draw_spans(const SpanLengths& lengths, uint64_t seed, int64_t sample, std::span<int64_t> out);

// Converts `tokens` [T] of a sample to `inputs` and `targets`, whose sizes are those of `lengths`.
void corrupt_spans(const SpanLengths& lengths, const SpanTokens& ids, uint64_t seed, int64_t sample,
                   std::span<const int32_t> tokens, std::span<int32_t> inputs,
                   std::span<int32_t> targets);

}  // namespace tessera::data
