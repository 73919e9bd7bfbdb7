// Span corruption (Raffel et al. 2020, T5): spans of the text are taken out, each replaced by a
// sentinel, and the decoder gives them back.
//
//   tokens    We hold these truths to be self evident
//   inputs    We hold <0> to be <1> </s>
//   targets   <0> these truths <1> self evident </s>
#pragma once

#include <cstdint>
#include <span>

namespace tessera::data {

struct SpanCorruption {
  double noise_density = 0.15;  // share of the tokens that are taken out
  double mean_span = 3;         // of them in a row, on average
};

// Of T tokens n = round(T · density) are taken out (at least 1, at most T − 1), in
// s = max(round(n / mean), 1) spans; halves round to even. All samples have the same lengths:
//   inputs T − n + s + 1, targets n + s + 1, each with its end-of-text token.
struct SpanLengths {
  int64_t tokens = 0;  // T
  int64_t noise = 0;   // n
  int64_t spans = 0;   // s, of noise and as many between them
  int64_t inputs = 0, targets = 0;
};
SpanLengths span_lengths(int64_t tokens, const SpanCorruption& how);

// The largest T whose inputs are no longer than `inputs`, as T5's random_spans_helper finds it
// (with its rule that at a density of one half targets are not longer than inputs). Throws Error
// for a density not within (0, 1), a mean below 1, and inputs that no text fits.
SpanLengths fit_spans(int64_t inputs, const SpanCorruption& how);

// Throws Error where a sample has more spans than the tokenizer has sentinels (T5: 100).
void require_sentinels(const SpanLengths& lengths, int64_t sentinels);

// Ids descend from the first sentinel: <extra_id_0> is the last id of T5's vocabulary.
struct SpanTokens {
  int32_t first_sentinel = 0;
  int32_t end_of_text = 1;
};

// The lengths of the spans in turn: kept, noise, kept, …, noise; `out` has 2 · spans of them. A
// text begins with what is kept and ends with noise. Noise is divided by a random choice of s − 1
// of its n − 1 inner boundaries (all equally likely), what is kept alike. Choice: the flags [i < s
// − 1] are shuffled; for i = n − 2 … 1 the flags i and ⌊u · (i + 1) / 2^64⌋ change places, with u
// the first 64 bits of Philox(key, index = sample, lane = i); key: hash_name("spans.noise" or
// "spans.kept", seed). So it is a function of (seed, sample) and of nothing else.
void draw_spans(const SpanLengths& lengths, uint64_t seed, int64_t sample, std::span<int64_t> out);

// One sample: `tokens` [T] become `inputs` and `targets`, whose sizes are those of `lengths`.
void corrupt_spans(const SpanLengths& lengths, const SpanTokens& ids, uint64_t seed, int64_t sample,
                   std::span<const int32_t> tokens, std::span<int32_t> inputs,
                   std::span<int32_t> targets);

}  // namespace tessera::data
