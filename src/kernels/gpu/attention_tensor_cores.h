// Helpers of the attention kernels on tensor cores. A warp owns 16 rows of queries (or keys); the
// block loads the keys (or queries) one tile at a time. Operands of the MMA are bf16 or f16, sums
// are f32; scores and their gradients stay f32 until they become operands. Each result has one
// writer.
#pragma once

#include "kernels/gpu/attention_tiles.h"
#include "kernels/gpu/tensor_cores.h"

namespace tessera::kernels::gpu {

constexpr int kTensorCoreWarps = 4, kTensorCoreThreads = kTensorCoreWarps * kWarp;
constexpr int kRowsPerWarp = 16, kRowsPerBlock = kTensorCoreWarps * kRowsPerWarp;

// Rows of up to kD numbers in shared memory, padded with zeros to kD. With a pitch of kD + 8
// numbers, the pairs that a warp reads at once are in different banks.
template <int kD>
struct HalfRows {
  static constexpr int kPitch = kD + 8;
  uint16_t* data;

  __device__ uint16_t* at(int row, int k) const { return data + row * kPitch + k; }
  __device__ uint32_t pair(int row, int k) const {
    return *reinterpret_cast<const uint32_t*>(at(row, k));
  }
  __device__ HalfRows from(int row) const { return {at(row, 0)}; }
};

template <int kD>
constexpr size_t halves_bytes(int rows) {
  return static_cast<size_t>(rows) * HalfRows<kD>::kPitch * sizeof(uint16_t);
}

// Return the row and column of this lane's element e in the 16 x 8 block n of a warp's scores.
__device__ inline int score_row(int e) { return lane_index() / 4 + 8 * (e / 2); }
__device__ inline int score_column(int n, int e) { return 8 * n + 2 * (lane_index() % 4) + e % 2; }

// Loads rows first … first + count - 1 of `from`; rows from `end` on are zero.
template <int kD>
__device__ void load_halves(const Numbers& from, int64_t at, int64_t stride, int64_t first,
                            int64_t end, int count, int d, const HalfRows<kD>& to) {
  constexpr int kGroups = kD / kGroup;
  for (int i = static_cast<int>(threadIdx.x); i < count * kGroups; i += kTensorCoreThreads) {
    const int row = i / kGroups, k = i % kGroups * kGroup;
    uint4 x = make_uint4(0, 0, 0, 0);
    if (first + row < end && k < d)
      x = *reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(from.data) + at +
                                          (first + row) * stride + k);
    *reinterpret_cast<uint4*>(to.at(row, k)) = x;
  }
}

// s = own · tile^T: the dot products of the warp's 16 rows with 8 N rows of a tile. Rows of the
// tile are the columns of B, so the pairs of B are contiguous in shared memory and need no
// transpose.
template <DType kType, int kD, int N>
__device__ void rows_by_rows(const HalfRows<kD>& own, const HalfRows<kD>& tile, float (&s)[N][4]) {
  const int g = lane_index() / 4, t = 2 * (lane_index() % 4);
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) s[n][e] = 0;
#pragma unroll
  for (int k = 0; k < kD; k += 16) {
    const uint32_t a[4] = {own.pair(g, k + t), own.pair(g + 8, k + t), own.pair(g, k + t + 8),
                           own.pair(g + 8, k + t + 8)};
#pragma unroll
    for (int n = 0; n < N; ++n)
      multiply_add<kType>(s[n], a, tile.pair(8 * n + g, k + t), tile.pair(8 * n + g, k + t + 8));
  }
}

template <DType kType>
__device__ uint32_t pair_of_halves(float low, float high) {
  return static_cast<uint32_t>(narrow(low, kType)) | static_cast<uint32_t>(narrow(high, kType))
                                                         << 16;
}

// sum += weight [16, 8 N] · 8 N rows of a tile. The C fragments of two adjacent 16 x 8 blocks are
// the A fragment of one 16 x 16 block, so the scores become operands within their lanes, without
// shared memory.
template <DType kType, int kD, int N>
__device__ void add_rows(const float (&weight)[N][4], const HalfRows<kD>& tile,
                         float (&sum)[kD / 8][4]) {
#pragma unroll
  for (int n = 0; n < N; n += 2) {
    const uint32_t a[4] = {pair_of_halves<kType>(weight[n][0], weight[n][1]),
                           pair_of_halves<kType>(weight[n][2], weight[n][3]),
                           pair_of_halves<kType>(weight[n + 1][0], weight[n + 1][1]),
                           pair_of_halves<kType>(weight[n + 1][2], weight[n + 1][3])};
#pragma unroll
    for (int k = 0; k < kD / 8; k += 2) {
      uint32_t b[4];
      load_b_of_rows(b, tile.at(8 * n + lane_index() % 16, 8 * k + 8 * (lane_index() / 16)));
      multiply_add<kType>(sum[k], a, b[0], b[1]);
      multiply_add<kType>(sum[k + 1], a, b[2], b[3]);
    }
  }
}

// Stores this lane's elements of one of its two rows (half 0 or 1), times `factor`. The d numbers
// of the row start at `at`.
template <DType kType, int kD>
__device__ void store_halves(const Numbers& to, int64_t at, int d, const float (&sum)[kD / 8][4],
                             int half, float factor) {
  auto* const row = static_cast<uint16_t*>(to.data) + at;
#pragma unroll
  for (int k = 0; k < kD / 8; ++k) {
    const int column = score_column(k, 0);
    if (column < d)
      *reinterpret_cast<uint32_t*>(row + column) =
          pair_of_halves<kType>(sum[k][2 * half] * factor, sum[k][2 * half + 1] * factor);
  }
}

// Reductions over the four lanes that share a row of scores.
__device__ inline float row_max(float x) {
  for (int o = 2; o > 0; o /= 2) x = fmaxf(x, shuffle_xor(x, o));
  return x;
}
__device__ inline float row_sum(float x) {
  for (int o = 2; o > 0; o /= 2) x += shuffle_xor(x, o);
  return x;
}

// Calls Launch<type, kD>::run for the type of the operands and the smallest kD >= d.
template <template <DType, int> class Launch>
void launch_tensor_cores(const AttentionWork& a, Stream s) {
  const bool bf16 = a.q.type == DType::kBF16;
  if (a.d <= 64)
    bf16 ? Launch<DType::kBF16, 64>::run(a, s) : Launch<DType::kF16, 64>::run(a, s);
  else if (a.d <= 96)
    bf16 ? Launch<DType::kBF16, 96>::run(a, s) : Launch<DType::kF16, 96>::run(a, s);
  else
    bf16 ? Launch<DType::kBF16, 128>::run(a, s) : Launch<DType::kF16, 128>::run(a, s);
}

}  // namespace tessera::kernels::gpu
