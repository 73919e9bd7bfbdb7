// The GEMM of TiledProduct for a few rows of A, as dot products: no operand is copied, and B is
// read once. Compiled once per instruction set, so it has no include guard.
#include "hwy/cache_control.h"
#include "kernels/cpu/tiled_panels_simd.h"  // it has simd.h, which may be read only once
#include "kernels/cpu/tiled_product_parts.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// Loads of rows whose type is known at compile time.
struct LoadF32 {
  const float* rows;
  HWY_INLINE V operator()(int64_t i) const { return hn::LoadU(F(), rows + i); }
  HWY_INLINE void prefetch(int64_t i) const { hwy::Prefetch(rows + i); }
};
struct LoadBF16 {
  const uint16_t* rows;
  HWY_INLINE V operator()(int64_t i) const { return WidenBF16(F(), rows + i); }
  HWY_INLINE void prefetch(int64_t i) const { hwy::Prefetch(rows + i); }
};
struct LoadF16 {
  const uint16_t* rows;
  HWY_INLINE V operator()(int64_t i) const { return WidenF16(F(), rows + i); }
  HWY_INLINE void prefetch(int64_t i) const { hwy::Prefetch(rows + i); }
};

// Rows of A and of B, and where the dot products are stored.
struct FewRows {
  const MatmulShape* shape;
  Source a, b;
  Sink c;
  bool add;
};

// Returns the sums of adjacent lanes: those of x in the lower half, those of y in the upper half.
HWY_INLINE V add_adjacent(V x, V y) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Add(x, y);  // never called: a one-lane vector needs no reduction
#else
  const F f;
  return hn::Add(hn::ConcatEven(f, y, x), hn::ConcatOdd(f, y, x));
#endif
}

// Returns the sum of the lanes of each vector, in lanes 0 to count - 1 (`count` is a power of two,
// at most kLanes). The order in which lanes are added does not depend on `count`. Overwrites the
// vectors.
template <int count>
HWY_INLINE V sums_of_lanes(V (&v)[count]) {
  static_assert(count <= kLanes);
  int left = count;
  for (int lanes = kLanes; lanes > 1; lanes /= 2) {
    if (left == 1) {
      v[0] = add_adjacent(v[0], v[0]);
      continue;
    }
    left /= 2;
    for (int i = 0; i < left; ++i) v[i] = add_adjacent(v[2 * i], v[2 * i + 1]);
  }
  return v[0];
}

// Computes R x S dot products. If `ahead` is not 0, also prefetches rows of B that begin `ahead`
// elements later. Each dot product is summed in one vector in the order of k, whatever R and S are,
// so its bits depend on its two rows only. R · S sums in flight hide the latency of the
// multiply-add.
template <int R, int S, class Load>
HWY_INLINE void dot_tile(const FewRows& w, const Load& a, const Load& b, int64_t m, int64_t n,
                         int64_t ahead) {
  const F f;
  const MatmulShape& s = *w.shape;
  V sum[R * S];
  for (V& v : sum) v = hn::Zero(f);
  int64_t k = 0;
  for (; k + kLanes <= s.k; k += kLanes) {
    V y[S];
    for (int j = 0; j < S; ++j) {
      y[j] = b((n + j) * s.ldb + k);
      if (ahead > 0) b.prefetch((n + j) * s.ldb + k + ahead);
    }
    for (int r = 0; r < R; ++r) {
      const V x = a((m + r) * s.lda + k);
      for (int j = 0; j < S; ++j) sum[r * S + j] = hn::MulAdd(x, y[j], sum[r * S + j]);
    }
  }
  if (k < s.k) {
    for (int i = 0; i < R * S; ++i)
      sum[i] = hn::MulAdd(LoadSome(w.a, (m + i / S) * s.lda + k, s.k - k),
                          LoadSome(w.b, (n + i % S) * s.ldb + k, s.k - k), sum[i]);
  }
  alignas(64) float products[HWY_MAX(R * S, kLanes)];
  if constexpr (kLanes == 1) {
    for (int i = 0; i < R * S; ++i)
      hn::Store(hn::Mul(hn::Set(f, s.alpha), sum[i]), f, products + i);
  } else {
    hn::Store(hn::Mul(hn::Set(f, s.alpha), sums_of_lanes(sum)), f, products);
  }
  for (int i = 0; i < R * S; ++i) {
    const int64_t at = (m + i / S) * s.ldc + n + i % S;
    w.c.set(at, products[i] + (w.add ? Source(w.c)[at] : 0.0f));
  }
}

// Computes the columns [group, end) of the rows from m on, R rows at a time. Returns the first row
// that remains when fewer than R are left. Only the first R rows of a part prefetch B, because the
// others find it in the cache.
template <int R, class Load>
HWY_INLINE int64_t dot_rows(const FewRows& w, const Load& a, const Load& b,
                            const PartOfProduct& part, int64_t m, int64_t group, int64_t end) {
  constexpr int S = kLanes == 1 ? 8 / R : HWY_MIN(8, HWY_MAX(kLanes / R, 1));
  for (; m + R <= part.m_end; m += R) {
    int64_t n = group;
    for (; n + S <= end; n += S) {
      const bool prefetches = m == part.m_begin && n + 2 * S <= part.n_end;
      dot_tile<R, S>(w, a, b, m, n, prefetches ? S * w.shape->ldb : 0);
    }
    for (; n < end; ++n) dot_tile<R, 1>(w, a, b, m, n, 0);
  }
  return m;
}

// Loops over groups of columns, whose rows of B stay in the cache while all rows of A are
// multiplied.
template <class Load>
HWY_NOINLINE void multiply_rows(const FewRows& w, const Load& a, const Load& b,
                                const PartOfProduct& part) {
  constexpr int64_t kGroup = 8;
  for (int64_t n = part.n_begin; n < part.n_end; n += kGroup) {
    const int64_t end = HWY_MIN(n + kGroup, part.n_end);
    int64_t m = part.m_begin;
    // R · S <= kLanes: each sum has its own register, and one vector holds all results of a tile.
    // Without vectors there are eight sums, too.
    if constexpr (kLanes == 1) m = dot_rows<4>(w, a, b, part, m, n, end);
    if constexpr (kLanes >= 16) m = dot_rows<8>(w, a, b, part, m, n, end);
    if constexpr (kLanes >= 8) m = dot_rows<4>(w, a, b, part, m, n, end);
    if constexpr (kLanes >= 4) m = dot_rows<2>(w, a, b, part, m, n, end);
    dot_rows<1>(w, a, b, part, m, n, end);
  }
}

// Loads rows of either type, for A and B of different types.
struct LoadAny {
  Source rows;
  HWY_INLINE V operator()(int64_t i) const { return Load(F(), rows, i); }
  HWY_INLINE void prefetch(int64_t i) const { hwy::Prefetch((rows + i).as<char>()); }
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
