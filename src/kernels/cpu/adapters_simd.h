// Kernels of adapters, for one instruction set.
#include "kernels/cpu/adapters_rows.h"
#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// y = x · factors, for rows [begin, end) of `columns` numbers.
HWY_NOINLINE inline void ScaleColumns(Source x, const float* factors, Sink y, int64_t columns,
                                      int64_t begin, int64_t end) {
  const Source by(factors, DType::kF32);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t at = row * columns;
    for (int64_t c = 0; c < columns; c += kLanes)
      StoreSome(hn::Mul(LoadSome(x, at + c, columns - c), LoadSome(by, c, columns - c)), y, at + c,
                columns - c);
  }
}

// sums = Σ dy · x over all rows, for columns [begin, end).
HWY_NOINLINE inline void SumProducts(Source dy, Source x, float* sums, int64_t rows,
                                     int64_t columns, int64_t begin, int64_t end) {
  const Sink to(sums, DType::kF32);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t at = row * columns;
    for (int64_t c = begin; c < end; c += kLanes)
      StoreSome(hn::MulAdd(LoadSome(dy, at + c, end - c), LoadSome(x, at + c, end - c),
                           LoadSome(to, c, end - c)),
                to, c, end - c);
  }
}

// The squares of rows [begin, end) of the part.
HWY_NOINLINE inline void SquaresOfRows(const AdaptedRows& r, int64_t begin, int64_t end) {
  const F f;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t w = r.part.column(row) * r.inputs;
    V sum = hn::Zero(f);
    for (int64_t c = 0; c < r.inputs; c += kLanes) {
      const int64_t left = r.inputs - c;
      V change = hn::Zero(f);
      for (int64_t k = 0; k < r.rank; ++k)
        change = hn::MulAdd(hn::Set(f, r.b[row * r.rank + k]),
                            LoadSome(r.a, k * r.inputs + c, left), change);
      const V adapted = hn::MulAdd(hn::Set(f, r.scale), change, LoadSome(r.w, w + c, left));
      sum = hn::MulAdd(adapted, adapted, sum);
    }
    r.squares[row] = SumLanes(sum);
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
