// Sums of rows and of columns, for one instruction set.
#include "kernels/cpu/simd.h"
#include "kernels/cpu/sum_rows.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

HWY_INLINE void AddRow(const SumRows& a, int64_t row) {
  for (int64_t c = 0; c < a.d; c += kLanes) {
    const int64_t n = a.d - c, at = row * a.d + c;
    V acc = LoadSome(a.terms[0], at, n);
    for (int k = 1; k < a.term_count; ++k) acc = hn::Add(acc, LoadSome(a.terms[k], at, n));
    for (int k = 0; k < a.bias_count; ++k) acc = hn::Add(acc, LoadSome(a.biases[k], c, n));
    StoreSome(acc, a.out, at, n);
  }
}

HWY_NOINLINE inline void AddRows(const SumRows& a, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) AddRow(a, row);
}

// partial[d] = sum of the rows [begin, end) of x.
HWY_NOINLINE inline void SumColumns(Source x, int64_t d, int64_t begin, int64_t end,
                                    float* partial) {
  for (int64_t c = 0; c < d; c += kLanes)
    StoreSome(hn::Zero(F()), {partial, DType::kF32}, c, d - c);
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t c = 0; c < d; c += kLanes) {
      const V sum =
          hn::Add(LoadSome({partial, DType::kF32}, c, d - c), LoadSome(x, row * d + c, d - c));
      StoreSome(sum, {partial, DType::kF32}, c, d - c);
    }
  }
}

// to[c] += sum over blocks of partials[block * stride + c], for c in [begin, end).
HWY_NOINLINE inline void AddPartials(const BlockSums& a, int64_t begin, int64_t end) {
  for (int64_t c = begin; c < end; c += kLanes) {
    const int64_t n = end - c;
    V acc = hn::Zero(F());
    for (int64_t block = 0; block < a.blocks; ++block) {
      acc = hn::Add(acc, LoadSome({a.partials, DType::kF32}, block * a.stride + c, n));
    }
    StoreSome(hn::Add(LoadSome(a.to, c, n), acc), a.to, c, n);
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
