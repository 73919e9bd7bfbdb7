// Device code that the attention kernels share.
#pragma once

#include <cmath>

#include "kernels/gpu/attention.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/philox.h"
#include "kernels/gpu/reduce.h"

namespace tessera::kernels::gpu {

constexpr int kWarps = 4, kOwnRowsPerWarp = 4, kOwnRowsPerBlock = kWarps * kOwnRowsPerWarp;
constexpr int kTile = kWarp;
constexpr float kMaskedScore = -1e30f;  // below every other score, and finite

// Rows of D numbers in shared memory with a pitch of D + 1: lanes that read the same column of
// different rows read from different banks.
struct SharedRows {
  float* data;
  int pitch;
  __device__ float at(int row, int k) const { return data[row * pitch + k]; }
};

constexpr size_t shared_bytes(int d, int own_sets) {
  const size_t own = static_cast<size_t>(own_sets) * kOwnRowsPerBlock * static_cast<size_t>(d);
  return (own + 2 * kTile * static_cast<size_t>(d + 1)) * sizeof(float);
}

// rows first … first+count-1 of `from`, times `factor`; those from `end` on are zero.
__device__ inline void load_rows(const Numbers& from, int64_t at, int64_t stride, int64_t first,
                                 int64_t end, int count, int d, float factor,
                                 const SharedRows& to) {
  for (int i = static_cast<int>(threadIdx.x); i < count * d; i += kWarps * kWarp) {
    const int row = i / d, k = i % d;
    const bool there = first + row < end;
    to.data[row * to.pitch + k] =
        there ? factor * read(from, at + (first + row) * stride + k) : 0.0f;
  }
}

// Computes the dot products of each own row with this lane's row of the tile. A lane owns one row
// of the tile, so no reduction across lanes is needed.
__device__ inline void dots(const SharedRows& own, const SharedRows& tile, int d,
                            float (&dot)[kOwnRowsPerWarp]) {
  for (float& x : dot) x = 0;
  const int first = warp_index() * kOwnRowsPerWarp;
  for (int k = 0; k < d; ++k) {
    const float x = tile.at(lane_index(), k);
#pragma unroll
    for (int r = 0; r < kOwnRowsPerWarp; ++r) dot[r] += own.at(first + r, k) * x;
  }
}

// sum[r][e] += sum over the tile's rows of weight[r] times the row. Lane j holds the weights of row
// j of the tile; this lane sums dimensions lane + 32 e.
template <int kPer>
__device__ void add_weighted(const float (&weight)[kOwnRowsPerWarp], const SharedRows& tile, int d,
                             float (&sum)[kOwnRowsPerWarp][kPer]) {
  for (int j = 0; j < kTile; ++j) {
    float w[kOwnRowsPerWarp];
#pragma unroll
    for (int r = 0; r < kOwnRowsPerWarp; ++r) w[r] = shuffle(weight[r], j);
#pragma unroll
    for (int e = 0; e < kPer; ++e) {
      const int k = lane_index() + kWarp * e;
      const float x = k < d ? tile.at(j, k) : 0.0f;
#pragma unroll
      for (int r = 0; r < kOwnRowsPerWarp; ++r) sum[r][e] += w[r] * x;
    }
  }
}

template <int kPer>
__device__ void store_row(const Numbers& to, int64_t at, int d, const float (&x)[kPer],
                          float factor) {
#pragma unroll
  for (int e = 0; e < kPer; ++e) {
    const int k = lane_index() + kWarp * e;
    if (k < d) write(to, at + k, x[e] * factor);
  }
}

// One query and one key.
struct Pair {
  int64_t b, head, i, j;  // i and j in their arrays
  bool visible;           // not ahead, not before the window, not beyond the end
};

__device__ inline Pair pair_of(const AttentionWork& a, int64_t b, int64_t head, int64_t i,
                               int64_t j) {
  const int64_t start = a.first_position(b), keys = a.key_count(b);
  const bool within = a.window == 0 || j > start + i - a.window;
  return {b, head, i, j, i < a.t && j < keys && within && (!a.causal || j <= start + i)};
}

__device__ inline bool is_hidden(const AttentionWork& a, const Pair& p) {
  if (a.labels != nullptr)
    return a.labels[p.b * a.s + p.j] != a.labels[p.b * a.s + a.first_query + p.i];
  return a.ids != nullptr && a.ids[p.b * a.s + p.j] == 0;
}

// The score of a visible pair, from the product of its scaled query with its key.
__device__ inline float score(const AttentionWork& a, const Pair& p, float dot) {
  if (is_hidden(a, p)) return kMaskedScore;
  if (a.soft_cap > 0) return a.soft_cap * tanhf(dot / a.soft_cap);
  if (a.bias.data == nullptr) return dot;
  const int64_t query = p.i + a.first_position(p.b);
  return dot + read(a.bias, p.head * a.buckets + a.steps.of(p.j - query));
}

// The end of a row with maximum `most` and sum `total`: the factor of its output, and its
// log-sum-exp, both with the sink of its head.
struct RowEnd {
  float factor, lse;
};
__device__ inline RowEnd row_end(const AttentionWork& a, int64_t head, float most, float total) {
  if (a.sinks.data == nullptr) return {1.0f / total, most + logf(total)};
  const float sink = read(a.sinks, head), top = fmaxf(most, sink), own = expf(most - top);
  const float all = total * own + expf(sink - top);
  return {own / all, top + logf(all)};
}

// Returns the derivative of the soft cap at the score of a visible pair.
__device__ inline float cap_slope(const AttentionWork& a, float score) {
  const float share = a.soft_cap > 0 ? score / a.soft_cap : 0.0f;
  return 1 - share * share;
}

// Returns the dropout factor of a pair's probability: 0 or 1 / (1 - p).
__device__ inline float kept(const AttentionWork& a, const Pair& p, uint64_t key) {
  if (a.drop <= 0) return 1.0f;
  const int64_t row = (a.s + 3) / 4 * 4;
  const int64_t element = ((a.first_head + p.head) * a.queries + a.first_query + p.i) * row + p.j;
  PhiloxWords words(key, static_cast<uint64_t>(a.samples[p.b]));
  return is_dropped(words.of(element), a.drop) ? 0.0f : a.drop_scale;
}

}  // namespace tessera::kernels::gpu
