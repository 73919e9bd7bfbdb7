// The inner loops of TiledProduct. Compiled once per instruction set, so it has no include guard.
#include <algorithm>

#include "kernels/cpu/tiled_panels_simd.h"

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

// Loads of rows whose type is known at compile time.
struct LoadF32 {
  const float* rows;
  HWY_INLINE V operator()(int64_t i) const { return hn::LoadU(F(), rows + i); }
};
struct LoadBF16 {
  const uint16_t* rows;
  HWY_INLINE V operator()(int64_t i) const { return WidenBF16(F(), rows + i); }
};
struct LoadF16 {
  const uint16_t* rows;
  HWY_INLINE V operator()(int64_t i) const { return WidenF16(F(), rows + i); }
};

// Rows of A and of B, and where the products go.
struct FewRows {
  const MatmulShape* shape;
  Source a, b;
  Sink c;
  bool add;
};

// Computes R x S dot products. Each is summed in one vector in the order of k, whatever R and S
// are, so its bits depend on its two rows only. R · S sums in flight hide the latency of the
// multiply-add.
template <int R, int S, class Load>
HWY_INLINE void dot_tile(const FewRows& w, const Load& a, const Load& b, int64_t m, int64_t n) {
  const F f;
  const MatmulShape& s = *w.shape;
  V sum[R][S];
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < S; ++j) sum[r][j] = hn::Zero(f);
  int64_t k = 0;
  for (; k + kLanes <= s.k; k += kLanes) {
    V y[S];
    for (int j = 0; j < S; ++j) y[j] = b((n + j) * s.ldb + k);
    for (int r = 0; r < R; ++r) {
      const V x = a((m + r) * s.lda + k);
      for (int j = 0; j < S; ++j) sum[r][j] = hn::MulAdd(x, y[j], sum[r][j]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < S; ++j) {
      const V rest = k == s.k ? hn::Zero(f)
                              : hn::Mul(LoadSome(w.a, (m + r) * s.lda + k, s.k - k),
                                        LoadSome(w.b, (n + j) * s.ldb + k, s.k - k));
      const float product = s.alpha * SumLanes(hn::Add(sum[r][j], rest));
      const int64_t at = (m + r) * s.ldc + n + j;
      w.c.set(at, product + (w.add ? Source(w.c)[at] : 0.0f));
    }
}

// Computes all columns of R rows of A.
template <int R, int S, class Load>
HWY_INLINE void dot_columns(const FewRows& w, const Load& a, const Load& b, int64_t m, int64_t n,
                            int64_t columns) {
  int64_t j = 0;
  for (; j + S <= columns; j += S) dot_tile<R, S>(w, a, b, m, n + j);
  for (; j < columns; ++j) dot_tile<R, 1>(w, a, b, m, n + j);
}

// Goes by groups of columns, whose rows of B stay in the cache while all rows of A are multiplied.
template <class Load>
HWY_NOINLINE void multiply_rows(const FewRows& w, const Load& a, const Load& b,
                                const PartOfProduct& part) {
  constexpr int64_t kGroup = 8;
  for (int64_t n = part.n_begin; n < part.n_end; n += kGroup) {
    const int64_t columns = HWY_MIN(kGroup, part.n_end - n);
    int64_t m = part.m_begin;
    for (; m + 4 <= part.m_end; m += 4) dot_columns<4, 2>(w, a, b, m, n, columns);
    for (; m + 2 <= part.m_end; m += 2) dot_columns<2, 4>(w, a, b, m, n, columns);
    for (; m < part.m_end; ++m) dot_columns<1, 8>(w, a, b, m, n, columns);
  }
}

// For operands of two types.
struct LoadAny {
  Source rows;
  HWY_INLINE V operator()(int64_t i) const { return Load(F(), rows, i); }
};

// Computes one thread's part of C if rows of B are contiguous in k and A has few rows: c[m, n] =
// a row · b row.
inline void multiply_few_rows(const PartOfProduct& part) {
  const MatmulShape& s = *part.shape;
  const FewRows w{&s, Source(part.a, s.a), Source(part.b, s.b), Sink(part.c, s.c), part.add};
  const auto halves = [](const void* p) { return static_cast<const uint16_t*>(p); };
  const auto floats = [](const void* p) { return static_cast<const float*>(p); };
  if (s.a != s.b) return multiply_rows(w, LoadAny{w.a}, LoadAny{w.b}, part);
  if (s.a == DType::kF32)
    return multiply_rows(w, LoadF32{floats(part.a)}, LoadF32{floats(part.b)}, part);
  if (s.a == DType::kBF16)
    return multiply_rows(w, LoadBF16{halves(part.a)}, LoadBF16{halves(part.b)}, part);
  multiply_rows(w, LoadF16{halves(part.a)}, LoadF16{halves(part.b)}, part);
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
