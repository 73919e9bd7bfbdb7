// Tiled attention (kernels/attention.h), in two ways. The plain one supports every dtype and bias:
// a warp owns four rows (queries in the forward and in the gradient of queries, keys in the
// gradient of keys), and the block loads the rows of the other side 32 at a time, one per lane. No
// result has two writers. The other one is for tensor cores (attention_tensor_cores.h).
#pragma once

#include "kernels/attention.h"
#include "kernels/gpu/philox.h"
#include "kernels/gpu/views.h"

namespace tessera::kernels::gpu {

constexpr int kMostBuckets = 64;

// kernels/attention.h as steps: bucket k of a side begins at distance first[k]. The steps
// are computed on the host, so that both devices agree on every distance.
struct BucketSteps {
  int side = 0;  // buckets of one side
  bool causal = true;
  int32_t first[kMostBuckets] = {};

  __host__ __device__ int of(int64_t key_minus_query) const {
    const int64_t away = key_minus_query < 0 ? -key_minus_query : key_minus_query;
    const int64_t n = causal && key_minus_query > 0 ? 0 : away;
    int k = 0;
    while (k + 1 < side && first[k + 1] <= n) ++k;
    return !causal && key_minus_query > 0 ? side + k : k;
  }
};

// Offsets of rows of D numbers, in elements from the start of the data.
struct RowPlaces {
  int64_t sample = 0, row = 0, group = 0, member = 0;
  __host__ __device__ int64_t at(int64_t b, int64_t i, int64_t kv, int64_t g) const {
    return b * sample + i * row + kv * group + g * member;
  }
};

// Slots of a group in [B, T, KV, slots, D]: a query's rows and a key's rows of such an array.
inline RowPlaces row_places(View v) {
  const Shape& s = v.shape;
  return {s[1] * s[2] * s[3] * s[4], s[2] * s[3] * s[4], s[3] * s[4], s[4]};
}

struct AttentionWork {
  int64_t b = 0, t = 0, s = 0, kv = 0, g = 0;
  int d = 0, values = 0;  // widths of keys and of values, which are the first of d numbers
  float scale = 1;
  bool causal = true;
  int64_t window = 0;  // 0: none
  float soft_cap = 0;  // 0: none
  Numbers q, keys;     // keys and values in one array
  RowPlaces q_at, k_at;
  int64_t k_offset = 0, v_offset = 0;  // where a row of keys, values begins
  Numbers out;                         // [B, T, H, V]
  float* lse = nullptr;                // [B, H, T], or none
  // With a cache: the positions [B, T] of the queries, each the number of keys before it.
  const int32_t* start = nullptr;
  int64_t first_query = 0;  // position of the first query if `start` is null
  // A query attends only to keys with its label: a document number, or 1 where ids are not 0.
  const int32_t *labels = nullptr, *ids = nullptr;
  Numbers sinks;  // [H], or none
  Numbers bias;   // [H, N]
  int64_t buckets = 0;
  BucketSteps steps;
  float drop = 0, drop_scale = 1;
  MaskKey mask;
  const int64_t* samples = nullptr;
  int64_t first_head = 0, queries = 0;  // queries of the whole sequence
  // Gradient only.
  Numbers d_out, dq, d_keys;   // as out, q, keys
  float* delta = nullptr;      // [B, H, T]: d_out . out
  float* bias_rows = nullptr;  // [B, H, T, N]
  Numbers d_bias;              // [H, N]
  bool fresh_bias = false;

  __host__ __device__ int64_t heads() const { return kv * g; }
  __device__ int64_t first_position(int64_t sample) const {
    return start == nullptr ? first_query : start[sample * t];
  }
  __device__ int64_t key_count(int64_t sample) const {
    return start == nullptr ? s : start[sample * t] + t;
  }
  // The end of the keys that queries before `position` see, and the first of the tiles of queries
  // that see one of the keys from `key` on. In the gradient, which has no cache.
  __device__ int64_t end_key(int64_t position) const {
    return causal && position < s ? position : s;
  }
  __device__ int64_t first_row(int64_t key, int tile) const {
    return causal && key > first_query ? (key - first_query) / tile * tile : 0;
  }
  // The first of the tiles of keys that queries at positions from `position` on see, and the end of
  // the queries that see one of the keys before `key`.
  __device__ int64_t first_key(int64_t position, int tile) const {
    const int64_t first = position - window + 1;
    return window == 0 || first <= 0 ? 0 : first / tile * tile;
  }
  __device__ int64_t end_query(int64_t key) const {
    const int64_t end = key - 1 + window - first_query;
    return window == 0 || end > t ? t : end;
  }
  // Where the row of query i begins in [B, T, H, V].
  __host__ __device__ int64_t out_at(int64_t sample, int64_t i, int64_t head) const {
    return ((sample * t + i) * heads() + head) * values;
  }
  int64_t delta_floats() const { return b * heads() * t; }
  // GEMMs of 16-bit operands, if there is no bias (its gradient needs sums over rows).
  bool on_tensor_cores() const {
    return size_of(q.type) == 2 && d <= 128 && d % kGroup == 0 && values % kGroup == 0 &&
           bias.data == nullptr;
  }
};

// The work of a forward, or of a gradient without what only that has.
AttentionWork work_of(const AttentionArgs& a);
AttentionWork work_of(const AttentionGradArgs& a);

// On tensor cores: see AttentionWork::on_tensor_cores; without a cache.
void launch_attention_tensor_cores(const AttentionWork& a, Stream s);
void launch_attention_tensor_cores_grad(const AttentionWork& a, Stream s);

}  // namespace tessera::kernels::gpu
