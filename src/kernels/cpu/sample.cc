// Samples the next token: temperature, top-k, top-p (nucleus sampling), min-p. Weights are
// e^((z - max) / T) in double, so they do not overflow at any temperature. A full sort is avoided:
// top-k uses selection in O(V), and only the front that contains the sample is sorted.
#include "kernels/sample.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

// The candidates in descending order. Only a growing front is sorted: it doubles, since a
// sample is usually near the front and the vocabulary is large.
class SortedFront {
 public:
  SortedFront(Candidate* c, int64_t count, double temperature)
      : c_(c), count_(count), temperature_(temperature) {
    std::iter_swap(c, std::min_element(c, c + count, before));
  }

  int32_t token(int64_t i) const { return c_[i].token; }
  // e^((z - max) / T) of any candidate, and of the i-th of the order.
  double weight_at(int64_t i) const { return std::exp((c_[i].logit - c_[0].logit) / temperature_); }
  double weight(int64_t i) {
    if (i >= sorted_) {
      const int64_t from = sorted_;
      sorted_ = std::min(count_, std::max({int64_t{64}, 2 * sorted_, i + 1}));
      std::partial_sort(c_ + from, c_ + sorted_, c_ + count_, before);
    }
    return weight_at(i);
  }
  double total() const {
    double sum = 0;
    for (int64_t i = 0; i < count_; ++i) sum += weight_at(i);
    return sum;
  }

 private:
  Candidate* c_;
  int64_t count_, sorted_ = 0;
  double temperature_;
};

// Returns the number and the mass of the candidates that top_p and min_p leave.
std::pair<int64_t, double> restricted(SortedFront& front, int64_t count, const Sampling& s,
                                      double total) {
  if (s.top_p >= 1 && s.min_p <= 0) return {count, total};
  double mass = 0;
  int64_t kept = 0;
  while (kept < count && (kept == 0 || mass < s.top_p * total)) {
    const double weight = front.weight(kept);
    if (weight < s.min_p) break;
    mass += weight;
    ++kept;
  }
  return {kept, mass};
}

}  // namespace

int64_t sample_workspace_bytes(int64_t vocabulary) { return bytes_for<Candidate>(vocabulary); }

int32_t sample(const TensorView& logits, const Sampling& s, double u, void* workspace) {
  const float* const x = logits.f32();
  const int64_t v = logits.elements();
  CHECK(v > 0 && s.temperature >= 0 && s.top_k >= 0 && s.top_p > 0 && s.min_p >= 0 && s.min_p <= 1,
        "sampling from {} logits with temperature {}, top_k {}, top_p {}, min_p {}", v,
        s.temperature, s.top_k, s.top_p, s.min_p);
  if (s.temperature == 0) return token_of(std::max_element(x, x + v) - x);
  const auto c = static_cast<Candidate*>(workspace);
  for (int64_t i = 0; i < v; ++i) c[i] = {x[i], token_of(i)};
  int64_t count = v;
  if (s.top_k > 0 && s.top_k < v) {
    count = s.top_k;
    std::nth_element(c, c + count - 1, c + v, before);
  }
  SortedFront front(c, count, s.temperature);
  const auto [kept, mass] = restricted(front, count, s, front.total());
  // Inverse transform sampling: the first candidate at which the cumulative mass exceeds u.
  double sum = 0;
  for (int64_t i = 0; i < kept; ++i) {
    sum += front.weight(i);
    if (sum > u * mass) return front.token(i);
  }
  return front.token(kept - 1);
}

}  // namespace tessera::kernels
