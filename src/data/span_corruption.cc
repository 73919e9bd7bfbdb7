// T5's span corruption (Raffel et al. 2020, random_spans_noise_mask and random_spans_helper of the
// T5 code), as a pure function of (seed, sample).
#include "data/span_corruption.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/philox.h"

namespace tessera::data {
namespace {

__extension__ using Wide = unsigned __int128;

int64_t rounded(double x) { return std::llrint(x); }

// Divides `items` into `spans` parts that are not empty, and writes their sizes to every second
// element of `out`. Each of the items - 1 inner boundaries has a flag; spans - 1 flags are set and
// then shuffled (Fisher-Yates), which makes all divisions equally likely.
void divide(int64_t items, int64_t spans, const Philox& random, int64_t sample,
            std::span<int64_t> out) {
  std::vector<char> starts(items - 1);
  std::fill(starts.begin(), starts.begin() + (spans - 1), 1);
  for (size_t i = starts.size(); i-- > 1;) {
    const PhiloxBlock b = random.block(sample, i);
    // The upper half of u * (i + 1) is uniform in [0, i], without a division (Lemire 2019).
    const uint64_t u = uint64_t{b[0]} << 32 | b[1];
    std::swap(starts[i], starts[static_cast<size_t>(Wide{u} * (i + 1) >> 64)]);
  }
  size_t place = 0;
  out[0] = 1;
  for (const char start : starts) {
    if (start != 0) out[place += 2] = 0;
    ++out[place];
  }
}

void check_settings(const SpanCorruption& how) {
  if (!(how.noise_density > 0 && how.noise_density < 1)) {
    throw Error(
        "the noise density of span corruption is {}, expected above 0 and below 1; T5: 0.15",
        how.noise_density);
  }
  if (!(how.mean_span >= 1)) {
    throw Error("the mean span of span corruption is {} tokens, expected 1 or more; T5: 3",
                how.mean_span);
  }
}

}  // namespace

SpanLengths span_lengths(int64_t tokens, const SpanCorruption& how) {
  CHECK(tokens >= 2, "span corruption of {} tokens", tokens);
  SpanLengths l;
  l.tokens = tokens;
  l.noise =
      std::clamp<int64_t>(rounded(static_cast<double>(tokens) * how.noise_density), 1, tokens - 1);
  l.spans = std::max<int64_t>(rounded(static_cast<double>(l.noise) / how.mean_span), 1);
  l.inputs = tokens - l.noise + l.spans + 1;
  l.targets = l.noise + l.spans + 1;
  return l;
}

SpanLengths fit_spans(int64_t inputs, const SpanCorruption& how) {
  check_settings(how);
  constexpr int64_t kShortest = 2;
  if (inputs < span_lengths(kShortest, how).inputs) {
    throw Error("span corruption with inputs of {} tokens, expected {} or more", inputs,
                span_lengths(kShortest, how).inputs);
  }
  // The length of the inputs increases with the number of tokens, so the search starts near the
  // result and needs few steps for usual densities.
  int64_t tokens = std::max(kShortest, inputs - 1);
  while (tokens > kShortest && span_lengths(tokens, how).inputs > inputs) --tokens;
  while (span_lengths(tokens + 1, how).inputs <= inputs) ++tokens;
  SpanLengths l = span_lengths(tokens, how);
  // The rule of T5's random_spans_helper for a density of one half.
  if (how.noise_density == 0.5 && l.targets > l.inputs) {
    --l.tokens;
    --l.targets;
    --l.noise;
  }
  if (l.spans > l.noise || l.spans > l.tokens - l.noise) {
    throw Error(
        "{} tokens cannot be divided into {} spans of noise ({} tokens) and equally many kept "
        "spans. Change the density or the mean span",
        l.tokens, l.spans, l.noise);
  }
  return l;
}

void require_sentinels(const SpanLengths& lengths, int64_t sentinels) {
  if (lengths.spans <= sentinels) return;
  throw Error(
      "span corruption removes {} spans from {} tokens, but the tokenizer has {} sentinels. "
      "Use shorter samples, longer spans, or a tokenizer with more sentinels (tessera tokenizer "
      "train --sentinels)",
      lengths.spans, lengths.tokens, sentinels);
}

void draw_spans(const SpanLengths& lengths, uint64_t seed, int64_t sample, std::span<int64_t> out) {
  CHECK(std::ssize(out) == 2 * lengths.spans, "{} spans into {}", lengths.spans, out.size());
  divide(lengths.tokens - lengths.noise, lengths.spans, {hash_name("spans.kept", seed)}, sample,
         out);
  divide(lengths.noise, lengths.spans, {hash_name("spans.noise", seed)}, sample, out.subspan(1));
}

void corrupt_spans(const SpanLengths& lengths, const SpanTokens& ids, uint64_t seed, int64_t sample,
                   std::span<const int32_t> tokens, std::span<int32_t> inputs,
                   std::span<int32_t> targets) {
  CHECK(std::ssize(tokens) == lengths.tokens && std::ssize(inputs) == lengths.inputs &&
            std::ssize(targets) == lengths.targets,
        "{} tokens into {} and {}", tokens.size(), inputs.size(), targets.size());
  std::vector<int64_t> spans(2 * lengths.spans);
  draw_spans(lengths, seed, sample, spans);
  auto from = tokens.begin();
  auto input = inputs.begin(), target = targets.begin();
  int32_t sentinel = ids.first_sentinel;
  // Each iteration copies one kept span to the inputs and one noise span to the targets, both with
  // the same sentinel.
  for (size_t i = 0; i < spans.size(); i += 2, --sentinel) {
    input = std::copy_n(from, spans[i], input);
    *input++ = sentinel;
    *target++ = sentinel;
    target = std::copy_n(from + spans[i], spans[i + 1], target);
    from += spans[i] + spans[i + 1];
  }
  *input = ids.end_of_text;
  *target = ids.end_of_text;
}

}  // namespace tessera::data
