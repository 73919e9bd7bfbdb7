// Attention's operands, as strides and pointers.
#include "kernels/cuda/attention.h"
#include "kernels/cuda/views.h"
#include "kernels/relative_position.h"

namespace tessera::kernels::cuda {
namespace {

// Slots of a group in [B, T, KV, slots, D]; a query's rows and a key's rows of such an array.
RowPlaces places(View v) {
  const Shape& s = v.shape;
  return {s[1] * s[2] * s[3] * s[4], s[2] * s[3] * s[4], s[3] * s[4], s[4]};
}

BucketSteps bucket_steps(const AttentionScope& scope, int64_t longest) {
  const int64_t buckets = scope.bias.shape[1];
  const RelativeBuckets r{buckets, scope.bias_distance, scope.causal};
  BucketSteps steps;
  steps.causal = scope.causal;
  steps.side = static_cast<int>(scope.causal ? buckets : buckets / 2);
  CHECK(steps.side <= kMostBuckets, "{} buckets of distances", buckets);
  for (int k = 0; k < steps.side; ++k) steps.first[k] = INT32_MAX;
  for (int64_t n = longest; n >= 0; --n) {
    const int64_t k = relative_bucket(r, -n);  // keys behind, whose buckets are the lower half
    for (int64_t i = k; i >= 0 && steps.first[i] > n; --i) steps.first[i] = static_cast<int32_t>(n);
  }
  return steps;
}

void set_scope(const AttentionScope& scope, AttentionWork& w) {
  w.causal = scope.causal;
  w.labels = scope.documents.as<int32_t>();
  w.ids = scope.ids.as<int32_t>();
  if (!scope.bias) return;
  w.bias = numbers(scope.bias);
  w.buckets = scope.bias.shape[1];
  w.steps = bucket_steps(scope, w.t + w.s);
}

void set_dropout(const AttentionDropout& d, AttentionWork& w) {
  if (d.dropout.probability <= 0) return;
  w.drop = d.dropout.probability;
  w.drop_scale = 1.0f / (1.0f - w.drop);
  w.mask = {d.dropout.key, d.dropout.seed, d.dropout.step, d.dropout.layer};
  w.samples = d.samples.as<int64_t>();
  w.first_head = d.first_head;
}

// Of attention and its gradient.
template <class Kernel>
AttentionWork work_of(const Kernel& a) {
  const Shape& q = a.qkv.shape;
  const bool apart = static_cast<bool>(a.kv);
  View keys = apart ? a.kv : a.qkv;
  AttentionWork w;
  w.b = q[0];
  w.t = q[1];
  w.s = keys.shape[1];
  w.kv = q[2];
  w.g = q[3] - (apart ? 0 : 2);
  w.d = static_cast<int>(q[4]);
  CHECK(w.d <= 256 && w.g >= 1 && w.b <= 65535, "attention of {}", to_string(q));
  w.scale = a.scale;
  w.q = numbers(a.qkv);
  w.q_at = places(a.qkv);
  w.keys = numbers(keys);
  w.k_at = places(keys);
  w.k_offset = (keys.shape[3] - 2) * w.d;
  w.v_offset = (keys.shape[3] - 1) * w.d;
  w.out = numbers(a.out);
  w.lse = a.lse ? a.lse.f32() : nullptr;
  set_scope(a.scope, w);
  set_dropout(a.dropout, w);
  return w;
}

// Products of 16-bit numbers, where scores have no biases whose gradients are sums over rows.
bool on_tensor_cores(const AttentionWork& w) {
  return size_of(w.q.type) == 2 && w.d <= 128 && w.d % kGroup == 0 && w.bias.data == nullptr;
}

int64_t delta_floats(const AttentionWork& w) { return w.b * w.heads() * w.t; }

}  // namespace

void attention(Stream s, const Attention& a, void*) {
  const AttentionWork w = work_of(a);
  if (on_tensor_cores(w))
    launch_attention_halves(w, s);
  else
    launch_attention(w, s);
}

int64_t attention_grad_bytes(View qkv, View kv, int64_t buckets) {
  const int64_t queries = qkv.shape[3] - (kv.shape.rank() > 0 ? 0 : 2);  // of a group
  const int64_t delta = qkv.shape[0] * qkv.shape[1] * qkv.shape[2] * queries;
  return delta * (1 + buckets) * static_cast<int64_t>(sizeof(float));
}

void attention_grad(Stream s, const AttentionGrad& a, void* workspace) {
  AttentionWork w = work_of(a);
  w.d_out = numbers(a.d_out);
  w.dq = numbers(a.d_qkv);
  w.d_keys = numbers(a.kv ? a.d_kv : a.d_qkv);
  w.delta = static_cast<float*>(workspace);
  if (a.scope.bias) {
    w.bias_rows = w.delta + delta_floats(w);
    w.d_bias = numbers(a.d_bias);
    w.fresh_bias = a.fresh_bias;
    fill_in_stream(s, w.bias_rows, 0,
                   delta_floats(w) * w.buckets * static_cast<int64_t>(sizeof(float)));
  }
  if (on_tensor_cores(w))
    launch_attention_halves_grad(w, s);
  else
    launch_attention_grad(w, s);
}

void cached_attention(Stream s, const CachedAttention& a, void*) {
  const Shape& cache = a.cache.shape;  // [B, C, 2, KV, D]
  View fresh = a.kv ? a.kv : a.qkv;
  Attention plain;
  plain.qkv = a.qkv;
  plain.kv = a.kv;
  plain.out = a.out;
  plain.scale = a.scale;
  AttentionWork w = work_of(plain);
  w.start = a.start;
  w.s = cache[1];
  w.keys = numbers(a.cache);
  w.k_at = {cache[1] * 2 * cache[3] * cache[4], 2 * cache[3] * cache[4], cache[4], 0};
  w.k_offset = 0;
  w.v_offset = cache[3] * cache[4];
  AttentionScope scope;
  scope.bias = a.bias;
  scope.bias_distance = a.bias_distance;
  set_scope(scope, w);
  launch_cache_rows(w, {numbers(fresh), places(fresh), fresh.shape[3]}, s);
  launch_attention(w, s);
}

}  // namespace tessera::kernels::cuda
