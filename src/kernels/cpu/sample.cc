// Samples the next token: temperature, top-k, top-p (nucleus sampling). Weights are e^((z - max) /
// T) in double, so they do not overflow at any temperature. A full sort is avoided: top-k uses
// selection in O(V), and only the nucleus is sorted.
#include "kernels/sample.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tessera::kernels {

namespace {

struct Candidate {
  float logit;
  int32_t token;
};

int32_t token_of(int64_t place) { return static_cast<int32_t>(place); }

// Orders by descending logit, then ascending token: a total order, so the choice is repeatable.
bool before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// Sorts the front of the candidates until it holds `top_p` of the mass. Returns its length.
int64_t nucleus(Candidate* c, int64_t count, double temperature, double top_p) {
  std::iter_swap(c, std::min_element(c, c + count, before));
  const double largest = c[0].logit;
  const auto weight = [&](const Candidate& x) {
    return std::exp((x.logit - largest) / temperature);
  };
  double total = 0;
  for (int64_t i = 0; i < count; ++i) total += weight(c[i]);
  double mass = 0;
  int64_t sorted = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (i == sorted) {  // continue by doubling: a nucleus is small, the vocabulary large
      sorted = std::min(count, std::max<int64_t>(64, 2 * sorted));
      std::partial_sort(c + i, c + sorted, c + count, before);
    }
    mass += weight(c[i]);
    if (mass >= top_p * total) return i + 1;
  }
  return count;
}

}  // namespace

int64_t sample_workspace_bytes(int64_t vocabulary) { return bytes_for<Candidate>(vocabulary); }

int32_t sample(const TensorView& logits, const Sampling& s, double u, void* workspace) {
  const float* const x = logits.f32();
  const int64_t v = logits.elements();
  CHECK(v > 0 && s.temperature >= 0 && s.top_k >= 0 && s.top_p > 0,
        "sampling from {} logits with temperature {}, top_k {}, top_p {}", v, s.temperature,
        s.top_k, s.top_p);
  if (s.temperature == 0) return token_of(std::max_element(x, x + v) - x);
  const auto c = static_cast<Candidate*>(workspace);
  for (int64_t i = 0; i < v; ++i) c[i] = {x[i], token_of(i)};
  int64_t count = v;
  if (s.top_k > 0 && s.top_k < v) {
    count = s.top_k;
    std::nth_element(c, c + count - 1, c + v, before);
  }
  if (s.top_p < 1)
    count = nucleus(c, count, s.temperature, s.top_p);
  else
    std::sort(c, c + count, before);
  const double largest = c[0].logit;
  double total = 0;
  const auto weight = [&](int64_t i) { return std::exp((c[i].logit - largest) / s.temperature); };
  for (int64_t i = 0; i < count; ++i) total += weight(i);
  // Inverse transform sampling: the first candidate at which the cumulative mass exceeds u.
  double mass = 0;
  for (int64_t i = 0; i < count; ++i) {
    mass += weight(i);
    if (mass > u * total) return c[i].token;
  }
  return c[count - 1].token;
}

}  // namespace tessera::kernels
