// Adafactor's update pass, for one instruction set.
#include "kernels/adafactor.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/update_operands.h"

#include "kernels/cpu/philox_simd.h"  // after simd.h

#include "kernels/cpu/update_sweep_simd.h"  // after both

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// Updates a range within one row: u = g * row * columns[i - s.begin].
HWY_INLINE void SweepRow(const UpdateOperands& a, const UpdateRun& s, float row,
                         const float* columns) {
  const F f;
  const V keep = hn::Set(f, s.decay ? a.keep : 1.0f), beta1 = hn::Set(f, a.beta1);
  const V rate = hn::Set(f, a.learning_rate * a.one_minus_beta1), scale = hn::Set(f, row);
  const Source from(columns, DType::kF32);
  Sweep(a, s, [&](UpdateLanes& x, int64_t i, int64_t n) HWY_ATTR {
    const V u = hn::Mul(hn::Mul(x.g, scale), LoadSome(from, i - s.begin, n));
    x.m = hn::MulAdd(rate, u, hn::Mul(x.m, beta1));
    x.w = hn::Sub(hn::Mul(x.w, keep), x.m);
  });
}

HWY_NOINLINE inline void SweepAdafactor(const UpdateOperands& a, const UpdateRun& s) {
  const int64_t columns = a.columns;
  const auto clip = a.update_clip;
  if (columns == 0) return SweepRow(a, s, clip, a.row_scales + s.element);
  for (int64_t at = s.begin; at < s.end;) {
    const int64_t element = s.element + (at - s.begin), column = element % columns;
    const int64_t end = HWY_MIN(s.end, at + columns - column);
    SweepRow(a, {at, end, s.decay, s.key, element}, a.row_scales[element / columns] * clip,
             a.column_scales + column);
    at = end;
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
