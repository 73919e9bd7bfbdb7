// The inner loops of TiledProduct. Compiled once per instruction set, so it has no include guard.
#include <algorithm>

#include "kernels/cpu/few_rows_simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

struct TileTarget {
  float* c;  // [rows, columns], `stride` between rows
  int64_t stride;
  int64_t rows, columns;
  float alpha;
  bool add;
};

// c = alpha · A panel · B panel (+ c) for one register tile.
HWY_NOINLINE inline void multiply_tile(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                                       int64_t depth, const TileTarget& target) {
  const F f;
  V sum[kRows][2];
  // The tile of C stays in registers over the whole depth: per step, two loads of B and kRows
  // broadcasts of A feed 2 kRows multiply-adds.
  for (int i = 0; i < kRows; ++i) sum[i][0] = sum[i][1] = hn::Zero(f);
  for (int64_t p = 0; p < depth; ++p) {
    const V b0 = hn::Load(f, b), b1 = hn::Load(f, b + kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const V x = hn::Set(f, a[i]);
      sum[i][0] = hn::MulAdd(x, b0, sum[i][0]);
      sum[i][1] = hn::MulAdd(x, b1, sum[i][1]);
    }
    a += kRows;
    b += kColumns;
  }
  const V alpha = hn::Set(f, target.alpha);
  if (target.rows == kRows && target.columns == kColumns) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      float* c = target.c + i * target.stride;
      const V c0 = target.add ? hn::LoadU(f, c) : hn::Zero(f);
      const V c1 = target.add ? hn::LoadU(f, c + kLanes) : hn::Zero(f);
      hn::StoreU(hn::MulAdd(alpha, sum[i][0], c0), f, c);
      hn::StoreU(hn::MulAdd(alpha, sum[i][1], c1), f, c + kLanes);
    }
    return;
  }
  // At the edge of C, panels are padded with zeros: the full tile is computed and its valid part is
  // stored.
  HWY_ALIGN float edge[kRows * kColumns];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    hn::Store(hn::Mul(alpha, sum[i][0]), f, edge + i * kColumns);
    hn::Store(hn::Mul(alpha, sum[i][1]), f, edge + i * kColumns + kLanes);
  }
  for (int64_t i = 0; i < target.rows; ++i) {
    for (int64_t j = 0; j < target.columns; ++j) {
      float& c = target.c[i * target.stride + j];
      c = edge[i * kColumns + j] + (target.add ? c : 0.0f);
    }
  }
}

// Returns the block of B at (p, n) as f32 panels: in place if pack() wrote f32 panels.
inline const float* panels_of_b(const PartOfProduct& part, int64_t n, int64_t columns, int64_t p,
                                int64_t depth, float* room, int64_t* panel_stride) {
  const MatmulShape& s = *part.shape;
  *panel_stride = depth * kColumns;
  if (!s.packed_b) {
    const PanelSource source{part.b, s.b, s.transpose_b ? s.ldb : 1, s.transpose_b ? 1 : s.ldb};
    widen_panels<kColumns>(source, n, columns, p, depth, room);
    return room;
  }
  // pack() writes panels over all of k, [n / columns, k, columns], so a block in f32 is used in
  // place.
  const int64_t offset = n * s.k + p * kColumns;
  if (s.b == DType::kF32) {
    *panel_stride = s.k * kColumns;
    return static_cast<const float*>(part.b) + offset;
  }
  // For a packed f16 or bf16 B, only this block is widened, so the packed copy needs two bytes per
  // element.
  for (int64_t j = 0; j < columns; j += kColumns) {
    const Source from = Source(part.b, s.b) + (offset + j * s.k);
    float* to = room + j * depth;
    for (int64_t x = 0; x < depth * kColumns; x += kLanes)
      hn::StoreU(Load(F(), from, x), F(), to + x);
  }
  return room;
}

// Computes one thread's part of C.
inline void run_part(const PartOfProduct& part) {
  const MatmulShape& s = *part.shape;
  const auto aligned = [](int64_t floats) { return (floats + 15) / 16 * 16; };
  float* const room_a = part.workspace;
  float* const room_b = room_a + aligned(part.block_m * part.block_k);
  float* const room_c = room_b + aligned(part.block_n * part.block_k);
  const bool round_c = s.c != DType::kF32;
  const PanelSource source_a{part.a, s.a, s.transpose_a ? 1 : s.lda, s.transpose_a ? s.lda : 1};
  for (int64_t n = part.n_begin; n < part.n_end; n += part.block_n) {
    const int64_t columns = std::min(part.block_n, part.n_end - n);
    // If C is rounded, its f32 sums are kept in the workspace until the last slice of k.
    float* const c = round_c ? room_c : static_cast<float*>(part.c) + part.m_begin * s.ldc + n;
    const int64_t c_stride = round_c ? part.block_n : s.ldc;
    for (int64_t p = 0; p < s.k; p += part.block_k) {
      const int64_t depth = std::min(part.block_k, s.k - p);
      int64_t panel_stride = 0;
      const float* const b = panels_of_b(part, n, columns, p, depth, room_b, &panel_stride);
      const bool add = p > 0 || (part.add && !round_c);
      for (int64_t m = part.m_begin; m < part.m_end; m += part.block_m) {
        const int64_t rows = std::min(part.block_m, part.m_end - m);
        widen_panels<kRows>(source_a, m, rows, p, depth, room_a);
        for (int64_t j = 0; j < columns; j += kColumns) {
          for (int64_t i = 0; i < rows; i += kRows) {
            multiply_tile(room_a + i * depth, b + j / kColumns * panel_stride, depth,
                          {c + (m - part.m_begin + i) * c_stride + j, c_stride,
                           std::min<int64_t>(kRows, rows - i),
                           std::min<int64_t>(kColumns, columns - j), s.alpha, add});
          }
        }
      }
    }
    if (!round_c) continue;
    for (int64_t m = part.m_begin; m < part.m_end; ++m) {
      const Sink to = Sink(part.c, s.c) + (m * s.ldc + n);
      const Source from(room_c + (m - part.m_begin) * part.block_n, DType::kF32);
      for (int64_t j = 0; j < columns; j += kLanes) {
        const V sum = LoadSome(from, j, columns - j);
        StoreSome(part.add ? hn::Add(sum, LoadSome(to, j, columns - j)) : sum, to, j, columns - j);
      }
    }
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
