// Forward attention in bf16 or f16 on tensor cores: the online softmax of attention.cu with
// m16n8k16 MMA instructions (tensor_cores.h). A block has 4 warps and 64 queries of one head; the
// grid is (T / 64, H, B).
//
//   shared, 16 bits, pitch kD + 8:  [ queries 64 | keys 64 | values 64 ]
//                                   27 KiB for kD = 64, 51 KiB for kD = 128
//   a warp:  S [16, 64] = Q K^T     8 blocks of 16 x 8 in registers, 4 numbers per lane each
//            O [16, kD] += P V      kD / 8 such blocks, rescaled when a row's maximum rises
//
// In a 16 x 8 block, lane l has rows l / 4 and l / 4 + 8, at columns 2 (l mod 4) and one more:
//
//            0  1   2  3   4  5   6  7          so a row is shared by four lanes, whose
//   row 0   [ 0  ] [ 1  ] [ 2  ] [ 3  ]         maxima and sums two shuffles join
//   row 1   [ 4  ] [ 5  ] [ 6  ] [ 7  ]         (row_max, row_sum)
//    ⋮
//   row 8   [ 0  ] [ 1  ] [ 2  ] [ 3  ]
// P is rounded to 16 bits only as the operand of P V; its sum is computed from the f32 values.
#include "kernels/gpu/attention_tensor_cores.h"

namespace tessera::kernels::gpu {
namespace {

constexpr int kKeys = 64;  // per tile

// Turns the scores of a tile into the terms of the softmax: raises the rows' maxima, adds the terms
// to the rows' sums, and sets `shrink` to the factor for what was summed before.
template <int N>
__device__ void soften(const AttentionWork& a, int64_t b, int64_t head, int64_t query, int64_t key,
                       uint64_t mask, float (&s)[N][4], float (&most)[2], float (&total)[2],
                       float (&shrink)[2]) {
  float raised[2] = {most[0], most[1]};
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const Pair pair = pair_of(a, b, head, query + score_row(e), key + score_column(n, e));
      s[n][e] = pair.visible ? score(a, pair, s[n][e] * a.scale) : -INFINITY;
      raised[e / 2] = fmaxf(raised[e / 2], s[n][e]);
    }
  float sum[2] = {};
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    raised[h] = row_max(raised[h]);
    // A row past the end sees no key: its maximum stays -infinity, and the difference would be NaN.
    shrink[h] = raised[h] == -INFINITY ? 1.0f : expf(most[h] - raised[h]);
    most[h] = raised[h];
  }
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      s[n][e] = s[n][e] == -INFINITY ? 0.0f : expf(s[n][e] - most[e / 2]);
      sum[e / 2] += s[n][e];
      if (a.drop <= 0) continue;
      const Pair pair = pair_of(a, b, head, query + score_row(e), key + score_column(n, e));
      if (pair.visible) s[n][e] *= kept(a, pair, mask);
    }
#pragma unroll
  for (int h = 0; h < 2; ++h) total[h] = total[h] * shrink[h] + row_sum(sum[h]);
}

// A block has 64 queries of a head, a warp 16 of them.
template <DType kType, int kD>
__global__ void attention_tensor_cores_kernel(const AttentionWork a) {
  const int64_t b = blockIdx.z, head = blockIdx.y, kv = head / a.g, g = head % a.g;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRowsPerBlock;
  const HalfRows<kD> own = {reinterpret_cast<uint16_t*>(shared_floats())},
                     k_tile = own.from(kRowsPerBlock), v_tile = k_tile.from(kKeys),
                     rows = own.from(warp_index() * kRowsPerWarp);
  load_halves(a.q, a.q_at.at(b, 0, kv, g), a.q_at.row, first, a.t, kRowsPerBlock, a.d, own);
  const int64_t position = a.first_query + first, end = a.end_key(position + kRowsPerBlock);
  const int64_t place = a.k_at.at(b, 0, kv, 0), query = first + warp_index() * kRowsPerWarp;
  const uint64_t mask = a.drop > 0 ? value_of(a.mask) : 0;
  float most[2] = {-INFINITY, -INFINITY}, total[2] = {}, sum[kD / 8][4] = {};
  for (int64_t j = a.first_key(position, kKeys); j < end; j += kKeys) {
    __syncthreads();  // the previous tile is no longer read, and the own rows have arrived
    load_halves(a.keys, place + a.k_offset, a.k_at.row, j, a.s, kKeys, a.d, k_tile);
    load_halves(a.keys, place + a.v_offset, a.k_at.row, j, a.s, kKeys, a.values, v_tile);
    __syncthreads();
    float s[kKeys / 8][4], shrink[2];
    rows_by_rows<kType>(rows, k_tile, s);
    soften(a, b, head, query, j, mask, s, most, total, shrink);
#pragma unroll
    // Rescale O to the new maxima before adding the tile.
    for (int k = 0; k < kD / 8; ++k)
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[k][e] *= shrink[e / 2];
    add_rows<kType>(s, v_tile, sum);
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int64_t i = query + score_row(2 * h);
    if (i >= a.t) continue;
    const RowEnd ends = row_end(a, head, most[h], total[h]);
    store_halves<kType, kD>(a.out, a.out_at(b, i, head), a.values, sum, h, ends.factor);
    if (a.lse != nullptr && lane_index() % 4 == 0)
      a.lse[(b * a.heads() + head) * a.t + i] = ends.lse;
  }
}

template <DType kType, int kD>
struct Forward {
  static void run(const AttentionWork& a, Stream s) {
    launch("attention_tensor_cores", attention_tensor_cores_kernel<kType, kD>,
           {.x = blocks_for(a.t, kRowsPerBlock),
            .y = a.heads(),
            .z = a.b,
            .threads = kTensorCoreThreads,
            .shared_bytes = halves_bytes<kD>(kRowsPerBlock + 2 * kKeys)},
           s, a);
  }
};

}  // namespace

void launch_attention_tensor_cores(const AttentionWork& a, Stream s) {
  launch_tensor_cores<Forward>(a, s);
}

}  // namespace tessera::kernels::gpu
