// Prepares masks and biases of attention per head. A relative bias depends on j - i only, so a head
// has T + S - 1 values by distance; a row of scores adds a contiguous window of them, and their
// gradients are sums along diagonals, which keep() adds by bucket. Documents and padding become
// integer labels: a query sees exactly the keys with its label.
#include "kernels/cpu/attention_scope.h"

#include <algorithm>

#include "kernels/attention.h"
#include "kernels/cpu/operand.h"

namespace tessera::kernels {

ScopeOfHeads::ScopeOfHeads(const AttentionScope& scope, const PackedHeads& p, void* memory)
    : scope_(scope),
      p_(p),
      buckets_(static_cast<int32_t*>(memory)),
      parts_(static_cast<float*>(memory) + round_up(p.t + p.s, kPad)) {
  const auto labels = [](const TensorView& v, int64_t rows) {
    return !v || (v.dtype == DType::kI32 && v.elements() == rows);
  };
  const int64_t tokens = scope.tokens > 0 ? scope.tokens : p.s;
  CHECK(labels(scope.documents, p.b * tokens) && labels(scope.ids, p.b * p.s),
        "attention of {} x {} with documents {} and ids {}", p.t, p.s,
        to_string(scope.documents.shape), to_string(scope.ids.shape));
  CHECK(!scope.documents || !scope.ids, "attention has both documents and padding");
  const int64_t end = scope.first_query + p.t;
  CHECK(scope.first_query >= 0 && (scope.causal || scope.documents ? end <= tokens : end == p.t),
        "attention of {} queries from {} on to {} keys", p.t, scope.first_query, p.s);
  CHECK(scope.tokens == 0 || (scope.causal && !scope.ids && scope.first_query >= scope.first_key &&
                              scope.first_key + p.s <= tokens),
        "attention of {} queries from {} on to {} keys from {} on of {} tokens", p.t,
        scope.first_query, p.s, scope.first_key, tokens);
  CHECK(scope.first_query == 0 || !scope.bias, "attention has both first_query = {} and a bias",
        scope.first_query);
  CHECK(scope.window >= 0 && (scope.window == 0 || scope.causal), "a window of {}{}", scope.window,
        scope.causal ? "" : " in attention to all keys");
  CHECK(scope.soft_cap == 0 || !scope.bias, "attention has both a soft cap and a bias");
  if (!scope.bias) return;
  CHECK(scope.bias.shape.rank() == 2 && scope.bias.shape[0] == p.heads(),
        "a bias of {} for {} heads", to_string(scope.bias.shape), p.heads());
  const RelativeBuckets r{scope.bias.shape[1], scope.bias_distance, scope.causal};
  for (int64_t x = 0; x < distances(); ++x)
    buckets_[x] = static_cast<int32_t>(relative_bucket(r, x - (p.t - 1)));
}

void ScopeOfHeads::bind_keys(int64_t sample, const HeadBuffers& b, KeyHead& keys) const {
  keys.causal = scope_.causal;
  keys.first_query = scope_.first_query - scope_.first_key;
  keys.window = scope_.window;
  keys.soft_cap = scope_.soft_cap;
  const bool documents = static_cast<bool>(scope_.documents);
  if (!documents && !scope_.ids) return;
  const int32_t* const given = (documents ? scope_.documents : scope_.ids).as<int32_t>() +
                               sample * (scope_.tokens > 0 ? scope_.tokens : p_.s);
  for (int64_t j = 0; j < p_.s; ++j)
    b.labels[j] = documents ? given[scope_.first_key + j] : static_cast<int32_t>(given[j] != 0);
  std::fill(b.labels + p_.s, b.labels + round_up(p_.s, kTile), 0);
  keys.key_labels = b.labels;
  keys.query_labels = documents ? given + scope_.first_query : nullptr;
}

void ScopeOfHeads::bind_query(int64_t head, const HeadBuffers& b, bool gradient,
                              QueryHead& h) const {
  if (!scope_.bias) return;
  const int64_t n = scope_.bias.shape[1], padded = round_up(p_.t, kTile) + round_up(p_.s, kTile);
  const Source bias(scope_.bias);
  for (int64_t x = 0; x < distances(); ++x) {
    const int64_t at = head * n + buckets_[x];
    b.bias[x] = bias[at];
  }
  std::fill(b.bias + distances(), b.bias + padded, 0.0f);
  h.bias = b.bias;
  if (!gradient) return;
  std::fill(b.d_bias, b.d_bias + padded, 0.0f);
  h.d_bias = b.d_bias;
}

float* ScopeOfHeads::part(int64_t sample, int64_t head) const {
  return parts_ + (sample * p_.heads() + head) * scope_.bias.shape[1];
}

// The kernel sums the gradient of a bias by distance; here the distances of a bucket are joined.
// Each (sample, head) has its own sums, so threads share none.
void ScopeOfHeads::store_bias_gradient(int64_t sample, int64_t head, const QueryHead& h) const {
  if (!scope_.bias) return;
  float* const sums = part(sample, head);
  std::fill(sums, sums + scope_.bias.shape[1], 0.0f);
  for (int64_t x = 0; x < distances(); ++x) sums[buckets_[x]] += h.d_bias[x];
}

// Adds the samples in order: the bits do not depend on which thread had which sample.
void ScopeOfHeads::reduce_bias_gradient(const TensorView& d_bias, bool fresh) const {
  if (!scope_.bias) return;
  CHECK(d_bias.elements() == scope_.bias.elements(), "d_bias has shape {}, expected {}",
        to_string(d_bias.shape), to_string(scope_.bias.shape));
  const int64_t all = d_bias.elements();
  const Sink to(d_bias);
  for (int64_t e = 0; e < all; ++e) {
    float sum = 0;
    for (int64_t sample = 0; sample < p_.b; ++sample) sum += parts_[sample * all + e];
    to.set(e, fresh ? sum : Source(to)[e] + sum);
  }
}

int64_t scope_bytes(int64_t t, int64_t s, int64_t bias_parts) {
  return bytes_for<float>(round_up(t + s, kPad) + bias_parts);
}

// Distances below `exact` have a bucket each. Beyond, bucket numbers grow with the logarithm of the
// distance and reach the last one at r.distance. Computed in f32, as transformers and Mesh
// TensorFlow do, because another rounding would move some distances to other buckets.
int64_t relative_bucket(const RelativeBuckets& r, int64_t key_minus_query) {
  const int64_t side = r.causal ? r.buckets : r.buckets / 2, exact = side / 2;
  const int64_t first = !r.causal && key_minus_query > 0 ? side : 0;
  const int64_t n = r.causal ? std::max<int64_t>(-key_minus_query, 0) : std::abs(key_minus_query);
  if (n < exact) return first + n;
  const float ratio = static_cast<float>(n) / static_cast<float>(exact);
  const float whole =
      rounded(std::log(static_cast<double>(r.distance) / static_cast<double>(exact)));
  const float far = std::log(ratio) / whole * static_cast<float>(side - exact);
  return first + std::min(exact + static_cast<int64_t>(far), side - 1);
}

}  // namespace tessera::kernels
