#include "kernels/cpu/softmax_row_simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// The functions below take a row as it is with a soft cap; 0: none.

HWY_NOINLINE inline float MaxOfRow(const float* z, int64_t n, float cap) {
  return CappedOne(RowMax(z, n), cap);
}

HWY_NOINLINE inline float NumberOfRow(const float* z, int64_t i, float cap) {
  return CappedOne(z[i], cap);
}

HWY_NOINLINE inline double ExpSumOfRow(float* z, int64_t n, float shift, float cap) {
  return cap > 0 ? CappedExpSum(z, n, shift, cap) : ExpSum(z, n, shift, false);
}

// z becomes (factor e^(z - shift) - scale [i = label]) times the slope of the cap.
HWY_NOINLINE inline void GradientOfRow(float* z, int64_t n, float shift, float factor, float cap,
                                       int64_t label, float scale) {
  const Sink to(z, DType::kF32);
  if (cap > 0) return CappedGradient(z, n, shift, cap, factor, label, scale, to);
  ExpSum(z, n, shift, true);
  ScaleRow(z, n, factor, to);
  if (label >= 0) z[label] -= scale;
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
