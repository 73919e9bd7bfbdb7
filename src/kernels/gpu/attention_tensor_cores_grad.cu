// The gradient of attention in bf16 or f16 on tensor cores: the two kernels of attention_grad.cu
// with the fragments of attention_tensor_cores.cu. Both sides are loaded once per tile, and every
// GEMM of the tile reads them from shared memory:
//
//   query kernel, per tile of 32 keys:     S = Q K^T, dP = dO V^T      dQ += dS K
//   key kernel, per tile of 32 queries:    S^T = K Q^T, dP^T = V dO^T  dV += P^T dO, dK += dS^T Q
//
//   shared, 16 bits:  [ own rows 2 x 64 | tile 2 x 32 ]: 27 KiB for kD = 64, 51 KiB for kD = 128
//
// The key kernel computes the transposed scores, so that P^T and dS^T are A fragments in the lanes
// that hold them. Tiles have 32 rows, half of the forward's: a lane of the key kernel already holds
// kD sums of dK and dV in registers.
#include "kernels/gpu/attention_tensor_cores.h"

namespace tessera::kernels::gpu {
namespace {

constexpr int kOthers = 32;  // rows of a tile
constexpr int kColumns = kOthers / 8;

// Per-query inputs of the gradient: the log-sum-exp, and delta, the dot product of the query's
// output with the output's gradient.
struct Ends {
  float lse, delta;
};

// Given s = q · k and ds = d_out · v of one query and one key: sets s to the probability after
// dropout and ds to the gradient of the score.
__device__ void gradient_of_score(const AttentionWork& a, const Pair& pair, const Ends& ends,
                                  uint64_t mask, float& s, float& ds) {
  if (!pair.visible || is_hidden(a, pair)) {
    s = ds = 0;
    return;
  }
  const float own = score(a, pair, s * a.scale);
  const float p = expf(own - ends.lse), keep = kept(a, pair, mask);
  ds = p * (ds * keep - ends.delta) * cap_slope(a, own);
  s = p * keep;
}

// Computes delta of the warp's 16 queries, stores it, and returns it to the lanes that own the
// rows.
template <int kD>
__device__ void find_delta(const AttentionWork& a, int64_t b, int64_t head, int64_t query,
                           const HalfRows<kD>& d_out, float (&delta)[2]) {
  const int64_t rows = (b * a.heads() + head) * a.t;
  for (int r = 0; r < kRowsPerWarp; ++r) {
    const int64_t i = query + r;
    if (i >= a.t) break;  // the whole warp
    float sum = 0;
    for (int k = lane_index(); k < a.values; k += kWarp)
      sum += widen(*d_out.at(r, k), a.d_out.type) * read(a.out, a.out_at(b, i, head) + k);
    sum = warp_sum(sum);
    if (lane_index() == 0) a.delta[rows + i] = sum;
#pragma unroll
    for (int h = 0; h < 2; ++h)
      if (r == score_row(2 * h)) delta[h] = sum;
  }
}

// Computes dq and delta. A block has 64 queries of a head.
template <DType kType, int kD>
__global__ void query_grad_tensor_cores_kernel(const AttentionWork a) {
  const int64_t b = blockIdx.z, head = blockIdx.y, kv = head / a.g, g = head % a.g;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRowsPerBlock;
  const HalfRows<kD> q_own = {reinterpret_cast<uint16_t*>(shared_floats())},
                     d_own = q_own.from(kRowsPerBlock), k_tile = d_own.from(kRowsPerBlock),
                     v_tile = k_tile.from(kOthers),
                     q_rows = q_own.from(warp_index() * kRowsPerWarp),
                     d_rows = d_own.from(warp_index() * kRowsPerWarp);
  load_halves(a.q, a.q_at.at(b, 0, kv, g), a.q_at.row, first, a.t, kRowsPerBlock, a.d, q_own);
  load_halves(a.d_out, a.out_at(b, 0, head), a.heads() * a.values, first, a.t, kRowsPerBlock,
              a.values, d_own);
  __syncthreads();
  const int64_t query = first + warp_index() * kRowsPerWarp;
  float delta[2] = {}, sum[kD / 8][4] = {};
  find_delta(a, b, head, query, d_rows, delta);
  Ends ends[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int64_t i = query + score_row(2 * h);
    ends[h] = {i < a.t ? a.lse[(b * a.heads() + head) * a.t + i] : 0.0f, delta[h]};
  }
  const int64_t position = a.first_query + first, end = a.end_key(position + kRowsPerBlock);
  const int64_t place = a.k_at.at(b, 0, kv, 0);
  const uint64_t mask = a.drop > 0 ? value_of(a.mask) : 0;
  for (int64_t j = a.first_key(position, kOthers); j < end; j += kOthers) {
    __syncthreads();
    load_halves(a.keys, place + a.k_offset, a.k_at.row, j, a.s, kOthers, a.d, k_tile);
    load_halves(a.keys, place + a.v_offset, a.k_at.row, j, a.s, kOthers, a.values, v_tile);
    __syncthreads();
    float s[kColumns][4], ds[kColumns][4];
    rows_by_rows<kType>(q_rows, k_tile, s);
    rows_by_rows<kType>(d_rows, v_tile, ds);
#pragma unroll
    for (int n = 0; n < kColumns; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        gradient_of_score(a, pair_of(a, b, head, query + score_row(e), j + score_column(n, e)),
                          ends[e / 2], mask, s[n][e], ds[n][e]);
    add_rows<kType>(ds, k_tile, sum);
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int64_t i = query + score_row(2 * h);
    if (i < a.t) store_halves<kType, kD>(a.dq, a.q_at.at(b, i, kv, g), a.d, sum, h, a.scale);
  }
}

// Computes dk and dv. A block has 64 keys of a group and visits the queries of all its heads.
template <DType kType, int kD>
__global__ void key_grad_tensor_cores_kernel(const AttentionWork a) {
  const int64_t b = blockIdx.z, kv = blockIdx.y;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRowsPerBlock;
  const HalfRows<kD> k_own = {reinterpret_cast<uint16_t*>(shared_floats())},
                     v_own = k_own.from(kRowsPerBlock), q_tile = v_own.from(kRowsPerBlock),
                     d_tile = q_tile.from(kOthers),
                     k_rows = k_own.from(warp_index() * kRowsPerWarp),
                     v_rows = v_own.from(warp_index() * kRowsPerWarp);
  const int64_t place = a.k_at.at(b, 0, kv, 0), key = first + warp_index() * kRowsPerWarp;
  load_halves(a.keys, place + a.k_offset, a.k_at.row, first, a.s, kRowsPerBlock, a.d, k_own);
  load_halves(a.keys, place + a.v_offset, a.k_at.row, first, a.s, kRowsPerBlock, a.values, v_own);
  const uint64_t mask = a.drop > 0 ? value_of(a.mask) : 0;
  float dk[kD / 8][4] = {}, dv[kD / 8][4] = {};
  for (int64_t g = 0; g < a.g; ++g) {
    const int64_t head = kv * a.g + g, rows = (b * a.heads() + head) * a.t;
    // Causal: queries before the first key see none of the block's keys.
    const int64_t end = a.end_query(first + kRowsPerBlock);
    for (int64_t i = a.first_row(first, kOthers); i < end; i += kOthers) {
      __syncthreads();
      load_halves(a.q, a.q_at.at(b, 0, kv, g), a.q_at.row, i, a.t, kOthers, a.d, q_tile);
      load_halves(a.d_out, a.out_at(b, 0, head), a.heads() * a.values, i, a.t, kOthers, a.values,
                  d_tile);
      __syncthreads();
      float p[kColumns][4], ds[kColumns][4];
      rows_by_rows<kType>(k_rows, q_tile, p);
      rows_by_rows<kType>(v_rows, d_tile, ds);
#pragma unroll
      for (int n = 0; n < kColumns; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const Pair pair = pair_of(a, b, head, i + score_column(n, e), key + score_row(e));
          const Ends ends =
              pair.visible ? Ends{a.lse[rows + pair.i], a.delta[rows + pair.i]} : Ends{0, 0};
          gradient_of_score(a, pair, ends, mask, p[n][e], ds[n][e]);
        }
      add_rows<kType>(p, d_tile, dv);
      add_rows<kType>(ds, q_tile, dk);
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int64_t j = key + score_row(2 * h);
    if (j >= a.s) continue;
    const int64_t at = a.k_at.at(b, j, kv, 0);
    store_halves<kType, kD>(a.d_keys, at + a.k_offset, a.d, dk, h, a.scale);
    store_halves<kType, kD>(a.d_keys, at + a.v_offset, a.d, dv, h, 1);
  }
}

template <DType kType, int kD>
struct Backward {
  static void run(const AttentionWork& a, Stream s) {
    // The query kernel runs first: the key kernel reads the delta that it stores.
    Grid grid = {.x = blocks_for(a.t, kRowsPerBlock),
                 .y = a.heads(),
                 .z = a.b,
                 .threads = kTensorCoreThreads,
                 .shared_bytes = halves_bytes<kD>(2 * kRowsPerBlock + 2 * kOthers)};
    launch("attention_tensor_cores_grad_queries", query_grad_tensor_cores_kernel<kType, kD>, grid,
           s, a);
    grid.x = blocks_for(a.s, kRowsPerBlock);
    grid.y = a.kv;
    launch("attention_tensor_cores_grad_keys", key_grad_tensor_cores_kernel<kType, kD>, grid, s, a);
  }
};

}  // namespace

void launch_attention_tensor_cores_grad(const AttentionWork& a, Stream s) {
  launch_tensor_cores<Backward>(a, s);
}

}  // namespace tessera::kernels::gpu
