#include "eval/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"

namespace tessera {
namespace {

struct Candidate {
  int32_t id;
  double p;
};

// The finite logits, largest first, at most `limit` of them (0: all), as unnormalised
// probabilities: exp((x − max) / temperature).
std::vector<Candidate> candidates(std::span<const float> logits, double temperature,
                                  int64_t limit) {
  std::vector<Candidate> out;
  out.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isfinite(logits[i])) out.push_back({static_cast<int32_t>(i), double{logits[i]}});
  }
  if (out.empty()) {
    throw Error("none of the {} logits is finite: the model's weights or the prompt are broken",
                logits.size());
  }
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.p != b.p ? a.p > b.p : a.id < b.id;
  };
  if (limit > 0 && limit < static_cast<int64_t>(out.size())) {
    std::partial_sort(out.begin(), out.begin() + limit, out.end(), before);
    out.resize(static_cast<size_t>(limit));
  } else {
    std::sort(out.begin(), out.end(), before);
  }
  const double largest = out.front().p;
  for (Candidate& c : out) c.p = std::exp((c.p - largest) / temperature);
  return out;
}

double total(const std::vector<Candidate>& c) {
  return std::accumulate(c.begin(), c.end(), 0.0, [](double s, auto& x) { return s + x.p; });
}

// Keeps the shortest row from the front whose sum reaches `share` of all.
void keep_nucleus(std::vector<Candidate>& c, double share) {
  const double wanted = share * total(c);
  double sum = 0;
  size_t kept = 0;
  while (kept < c.size() && (kept == 0 || sum < wanted)) sum += c[kept++].p;
  c.resize(kept);
}

}  // namespace

void validate(const SamplingOptions& o) {
  if (!(o.temperature >= 0) || !std::isfinite(o.temperature)) {
    throw Error("temperature = {} is not usable: 0 takes the likeliest token, 1 samples as trained",
                o.temperature);
  }
  if (o.top_k < 0) throw Error("top_k = {} is not usable: 0 keeps all, 1 the likeliest", o.top_k);
  if (!(o.top_p > 0 && o.top_p <= 1)) {
    throw Error("top_p = {} is not usable: above 0 and at most 1, which keeps all", o.top_p);
  }
}

int32_t arg_max(std::span<const float> logits) {
  CHECK(!logits.empty(), "no logits");
  size_t best = 0;
  for (size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[best] || std::isnan(logits[best])) best = i;
  }
  return static_cast<int32_t>(best);
}

int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                     double uniform) {
  CHECK(!logits.empty(), "no logits");
  CHECK(uniform >= 0 && uniform < 1, "{} is not in [0, 1)", uniform);
  if (options.temperature == 0) return arg_max(logits);
  std::vector<Candidate> c = candidates(logits, options.temperature, options.top_k);
  if (options.top_p < 1) keep_nucleus(c, options.top_p);
  const double wanted = uniform * total(c);
  double sum = 0;
  for (const Candidate& x : c) {
    sum += x.p;
    if (wanted < sum) return x.id;
  }
  return c.back().id;  // rounding: the sums agree only to the last bit
}

double sampling_uniform(uint64_t seed, uint64_t sequence, uint64_t position) {
  const PhiloxBlock b = Philox{hash_name("sampling", seed)}.block(position, sequence);
  const uint64_t word = (uint64_t{b[0]} << 32) | b[1];
  return static_cast<double>(word >> 11) * 0x1p-53;
}

}  // namespace tessera
