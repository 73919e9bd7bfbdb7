// One row of a sum. After simd.h, once per target.
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

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
