#include "kernels/cpu/softmax_row_simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

HWY_NOINLINE inline float MaxOfRow(const float* z, int64_t n) { return RowMax(z, n); }

HWY_NOINLINE inline double ExpSumOfRow(float* z, int64_t n, float shift) {
  return ExpSum(z, n, shift, false);
}

// z becomes factor * e^(z - shift).
HWY_NOINLINE inline void GradientOfRow(float* z, int64_t n, float shift, float factor) {
  ExpSum(z, n, shift, true);
  ScaleRow(z, n, factor, Sink(z, DType::kF32));
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
