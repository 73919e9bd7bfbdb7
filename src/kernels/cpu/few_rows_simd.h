// The GEMM of TiledProduct for a few rows of A, as dot products: no operand is copied, and B is
// read once. Compiled once per instruction set, so it has no include guard.
#include "kernels/cpu/tiled_panels_simd.h"  // it has simd.h, which may be read only once
#include "kernels/cpu/tiled_product_parts.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

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

// Rows of A and of B, and where the dot products are stored.
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
