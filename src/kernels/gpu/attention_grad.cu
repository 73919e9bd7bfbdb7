// The gradient of attention by plain kernels, and the choice between these and tensor cores.
// Probabilities are regenerated from the log-sum-exp (Dao 2023; kernels/attention.h). With mask M,
// delta_i = out_i · d_out_i:
//
//   p_ij = e^(s_ij - lse_i),  ds_ij = p_ij (M_ij d_out_i · v_j - delta_i)
//   dq_i = scale sum_j ds_ij k_j,  dk_j = scale sum_i ds_ij q_i,  dv_j = sum_i M_ij p_ij d_out_i
//
// Two kernels, so that each result has one writer and no atomics are needed: the first owns queries
// (dq, delta, bias rows) and reads tiles of keys; the second owns keys (dk, dv) and reads tiles of
// queries of all heads of the group. The scores are computed twice. Both use the tiles of
// attention.cu with two own sets: 16 rows of q and d_out, or of k and v.
#include "kernels/gpu/attention_tiles.h"
#include "tensor/gpu.h"

namespace tessera::kernels::gpu {
namespace {

// Adds this lane's ds to its bucket of the query's row. Lanes of the same bucket are summed first:
// the warp handles one bucket after another, lowest lane first, until no lane is left.
__device__ void add_to_buckets(const AttentionWork& a, const Pair& p, float ds, float* row) {
  const int own = p.visible ? a.steps.of(p.j - p.i) : -1;
  for (uint32_t rest = ballot(own >= 0); rest != 0;) {
    const int bucket = shuffle(own, __ffs(static_cast<int>(rest)) - 1);
    const float sum = warp_sum(own == bucket ? ds : 0.0f);
    if (lane_index() == 0) row[bucket] += sum;
    rest &= ~ballot(own == bucket);
  }
}

struct Scores {
  float p, ds;  // the probability after dropout, and the gradient of the score
};

__device__ Scores gradient_of_pair(const AttentionWork& a, const Pair& pair, float dot, float dp,
                                   float lse, float delta, uint64_t key) {
  if (!pair.visible || is_hidden(a, pair)) return {0, 0};
  const float s = score(a, pair, dot), p = expf(s - lse), mask = kept(a, pair, key);
  return {p * mask, p * (dp * mask - delta) * cap_slope(a, s)};
}

// Computes dq, delta and the rows of the bias's gradient. A block has 16 queries of a head.
template <int kPer>
__global__ void query_grad_kernel(const AttentionWork a) {
  const int64_t b = blockIdx.z, head = blockIdx.y, kv = head / a.g, g = head % a.g;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kOwnRowsPerBlock;
  float* const memory = shared_floats();
  const SharedRows own = {memory, a.d}, d_out = {memory + kOwnRowsPerBlock * a.d, a.d},
                   k_tile = {memory + 2 * kOwnRowsPerBlock * a.d, a.d + 1},
                   v_tile = {k_tile.data + kTile * (a.d + 1), a.d + 1};
  const int64_t out_row = a.heads() * a.values, out_at = a.out_at(b, 0, head);
  load_rows(a.q, a.q_at.at(b, 0, kv, g), a.q_at.row, first, a.t, kOwnRowsPerBlock, a.d, a.scale,
            own);
  load_rows(a.d_out, out_at, out_row, first, a.t, kOwnRowsPerBlock, a.values, 1, d_out);
  __syncthreads();
  const int mine = warp_index() * kOwnRowsPerWarp;
  const int64_t rows = (b * a.heads() + head) * a.t;
  float delta[kOwnRowsPerWarp] = {}, lse[kOwnRowsPerWarp] = {}, sum[kOwnRowsPerWarp][kPer] = {};
#pragma unroll
  for (int r = 0; r < kOwnRowsPerWarp; ++r) {
    const int64_t i = first + mine + r;
    if (i >= a.t) continue;  // the whole warp
    // delta of each query of this warp: a dot product over 32 lanes, which the key kernel reads
    // later.
    for (int k = lane_index(); k < a.values; k += kWarp)
      delta[r] += d_out.at(mine + r, k) * read(a.out, out_at + i * out_row + k);
    delta[r] = warp_sum(delta[r]);
    lse[r] = a.lse[rows + i];
    if (lane_index() == 0) a.delta[rows + i] = delta[r];
  }
  const int64_t position = a.first_query + first, end = a.end_key(position + kOwnRowsPerBlock);
  const uint64_t key = a.drop > 0 ? value_of(a.mask) : 0;
  const int64_t place = a.k_at.at(b, 0, kv, 0);
  for (int64_t j = a.first_key(position, kTile); j < end; j += kTile) {
    __syncthreads();
    load_rows(a.keys, place + a.k_offset, a.k_at.row, j, a.s, kTile, a.d, 1, k_tile);
    load_rows(a.keys, place + a.v_offset, a.k_at.row, j, a.s, kTile, a.values, 1, v_tile);
    __syncthreads();
    float dot[kOwnRowsPerWarp], ds[kOwnRowsPerWarp];
    dots(own, k_tile, a.d, dot);
    dots(d_out, v_tile, a.values, ds);
#pragma unroll
    for (int r = 0; r < kOwnRowsPerWarp; ++r) {
      const Pair pair = pair_of(a, b, head, first + mine + r, j + lane_index());
      ds[r] = gradient_of_pair(a, pair, dot[r], ds[r], lse[r], delta[r], key).ds;
      if (a.bias_rows != nullptr && first + mine + r < a.t)
        add_to_buckets(a, pair, ds[r], a.bias_rows + (rows + pair.i) * a.buckets);
    }
    add_weighted(ds, k_tile, a.d, sum);
  }
#pragma unroll
  for (int r = 0; r < kOwnRowsPerWarp; ++r)
    if (first + mine + r < a.t)
      store_row(a.dq, a.q_at.at(b, first + mine + r, kv, g), a.d, sum[r], a.scale);
}

// Computes dk and dv. A block has 16 keys of a group and visits the queries of all its heads.
template <int kPer>
__global__ void key_grad_kernel(const AttentionWork a) {
  const int64_t b = blockIdx.z, kv = blockIdx.y;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kOwnRowsPerBlock;
  float* const memory = shared_floats();
  const SharedRows k_own = {memory, a.d}, v_own = {memory + kOwnRowsPerBlock * a.d, a.d},
                   q_tile = {memory + 2 * kOwnRowsPerBlock * a.d, a.d + 1},
                   d_out = {q_tile.data + kTile * (a.d + 1), a.d + 1};
  const int64_t place = a.k_at.at(b, 0, kv, 0);
  load_rows(a.keys, place + a.k_offset, a.k_at.row, first, a.s, kOwnRowsPerBlock, a.d, 1, k_own);
  load_rows(a.keys, place + a.v_offset, a.k_at.row, first, a.s, kOwnRowsPerBlock, a.values, 1,
            v_own);
  const int mine = warp_index() * kOwnRowsPerWarp;
  const uint64_t key = a.drop > 0 ? value_of(a.mask) : 0;
  float dk[kOwnRowsPerWarp][kPer] = {}, dv[kOwnRowsPerWarp][kPer] = {};
  for (int64_t g = 0; g < a.g; ++g) {
    const int64_t head = kv * a.g + g, rows = (b * a.heads() + head) * a.t;
    // Causal: queries before the first key see none of the block's keys.
    const int64_t end = a.end_query(first + kOwnRowsPerBlock);
    for (int64_t i = a.first_row(first, kTile); i < end; i += kTile) {
      __syncthreads();
      load_rows(a.q, a.q_at.at(b, 0, kv, g), a.q_at.row, i, a.t, kTile, a.d, a.scale, q_tile);
      load_rows(a.d_out, a.out_at(b, 0, head), a.heads() * a.values, i, a.t, kTile, a.values, 1,
                d_out);
      __syncthreads();
      const int64_t query = i + lane_index();
      const float lse = query < a.t ? a.lse[rows + query] : 0.0f;
      const float delta = query < a.t ? a.delta[rows + query] : 0.0f;
      float ds[kOwnRowsPerWarp], p[kOwnRowsPerWarp];
      dots(k_own, q_tile, a.d, ds);
      dots(v_own, d_out, a.values, p);
#pragma unroll
      for (int r = 0; r < kOwnRowsPerWarp; ++r) {
        const Pair pair = pair_of(a, b, head, query, first + mine + r);
        const Scores s = gradient_of_pair(a, pair, ds[r], p[r], lse, delta, key);
        p[r] = s.p;
        ds[r] = s.ds;
      }
      add_weighted(p, d_out, a.values, dv);
      add_weighted(ds, q_tile, a.d, dk);
    }
  }
#pragma unroll
  for (int r = 0; r < kOwnRowsPerWarp; ++r) {
    const int64_t j = first + mine + r;
    if (j >= a.s) continue;
    store_row(a.d_keys, a.k_at.at(b, j, kv, 0) + a.k_offset, a.d, dk[r], 1);
    store_row(a.d_keys, a.k_at.at(b, j, kv, 0) + a.v_offset, a.d, dv[r], 1);
  }
}

// d_bias[h, n] = or += the sum over samples and queries, in this order, by one thread.
struct JoinBias {
  AttentionWork a;
  __host__ __device__ int64_t count() const { return a.heads() * a.buckets; }
  __device__ void operator()(int64_t i) const {
    const int64_t head = i / a.buckets, n = i % a.buckets;
    float sum = 0;
    for (int64_t b = 0; b < a.b; ++b)
      for (int64_t t = 0; t < a.t; ++t)
        sum += a.bias_rows[((b * a.heads() + head) * a.t + t) * a.buckets + n];
    write(a.d_bias, i, a.fresh_bias ? sum : read(a.d_bias, i) + sum);
  }
};

template <int kPer>
void launch_both(const AttentionWork& a, Stream s) {
  // The query kernel runs first: the key kernel reads the delta that it stores.
  Grid grid = {.x = blocks_for(a.t, kOwnRowsPerBlock),
               .y = a.heads(),
               .z = a.b,
               .threads = kWarps * kWarp,
               .shared_bytes = shared_bytes(a.d, 2)};
  launch("attention_grad_queries", query_grad_kernel<kPer>, grid, s, a);
  grid.x = blocks_for(a.s, kOwnRowsPerBlock);
  grid.y = a.kv;
  launch("attention_grad_keys", key_grad_kernel<kPer>, grid, s, a);
}

void launch_plain(const AttentionWork& a, Stream s) {
  if (a.d <= 64)
    launch_both<2>(a, s);
  else if (a.d <= 128)
    launch_both<4>(a, s);
  else
    launch_both<8>(a, s);
  if (a.d_bias.data != nullptr) launch_map("attention_grad_bias", s, JoinBias{a});
}

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

int64_t workspace_bytes(Gpu, const AttentionGradArgs& a, int) {
  const Shape& q = a.qkv.shape;
  const int64_t queries = q[3] - (a.kv.shape.rank() > 0 ? 0 : 2);  // per group
  const int64_t delta = q[0] * q[1] * q[2] * queries;
  const int64_t buckets = a.scope.bias.shape.rank() > 0 ? a.scope.bias.shape[1] : 0;
  return delta * (1 + buckets) * static_cast<int64_t>(sizeof(float));
}

void launch(Gpu, const Launch& l, const AttentionGradArgs& a) {
  require(!a.add && a.scope.tokens == 0,
          "the gradient of attention to a block of the keys on a GPU");
  AttentionWork w = work_of(a);
  w.d_out = numbers(a.d_out);
  w.dq = numbers(a.d_qkv);
  w.d_keys = numbers(a.kv ? a.d_kv : a.d_qkv);
  w.delta = static_cast<float*>(l.workspace);
  if (a.scope.bias) {
    w.bias_rows = w.delta + w.delta_floats();
    w.d_bias = numbers(a.d_bias);
    w.fresh_bias = a.fresh_bias;
    fill_in_stream(l.stream, w.bias_rows, 0,
                   w.delta_floats() * w.buckets * static_cast<int64_t>(sizeof(float)));
  }
  if (w.on_tensor_cores())
    launch_attention_tensor_cores_grad(w, l.stream);
  else
    launch_plain(w, l.stream);
}

}  // namespace tessera::kernels
