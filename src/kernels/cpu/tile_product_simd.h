// Multiplies small f32 matrices in cache, for the attention kernels. Include after simd.h, once per
// target.
HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// The sums use 16 of the 32 registers of AVX-512, or 12 of the 16 of AVX2. Two vectors of b and one
// broadcast of a need three more.
constexpr int kTileRows = kLanes >= 16 ? 8 : 6;
constexpr int kTileVectors = 2;

// c[m, n] = or += a[m, k] b[k, n]. Element (i, p) of a is at a[i * row + p * step], so a may be a
// matrix or its transpose. b and c are row-major; n is a multiple of kLanes.
struct TileProduct {
  const float* a;
  int64_t row, step;
  const float* b;
  int64_t ldb;
  float* c;
  int64_t ldc;
  bool accumulate;
};

template <int R, int NV>
HWY_INLINE void RegisterTile(const TileProduct& t, int64_t i, int64_t j, int64_t k) {
  const F f;
  const float* HWY_RESTRICT a = t.a + i * t.row;
  const float* HWY_RESTRICT b = t.b + j;
  V sums[R][NV];
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < NV; ++v) sums[r][v] = hn::Zero(f);
  }
  for (int64_t p = 0; p < k; ++p, a += t.step, b += t.ldb) {
    V line[NV];
    for (int v = 0; v < NV; ++v) line[v] = hn::LoadU(f, b + v * kLanes);
    for (int r = 0; r < R; ++r) {
      const V x = hn::Set(f, a[r * t.row]);
      for (int v = 0; v < NV; ++v) sums[r][v] = hn::MulAdd(x, line[v], sums[r][v]);
    }
  }
  for (int r = 0; r < R; ++r) {
    float* const c = t.c + (i + r) * t.ldc + j;
    for (int v = 0; v < NV; ++v) {
      V sum = sums[r][v];
      if (t.accumulate) sum = hn::Add(sum, hn::LoadU(f, c + v * kLanes));
      hn::StoreU(sum, f, c + v * kLanes);
    }
  }
}

template <int NV, int R = kTileRows>
HWY_INLINE void RegisterRows(const TileProduct& t, int64_t i, int64_t rows, int64_t j, int64_t k) {
  if (rows >= R) {
    RegisterTile<R, NV>(t, i, j, k);
  } else if constexpr (R > 1) {
    RegisterRows<NV, R - 1>(t, i, rows, j, k);
  }
}

HWY_NOINLINE inline void Multiply(const TileProduct& t, int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kWide = kTileVectors * kLanes;
  int64_t j = 0;
  for (; j + kWide <= n; j += kWide) {
    for (int64_t i = 0; i < m; i += kTileRows) RegisterRows<kTileVectors>(t, i, m - i, j, k);
  }
  for (; j < n; j += kLanes) {
    for (int64_t i = 0; i < m; i += kTileRows) RegisterRows<1>(t, i, m - i, j, k);
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
