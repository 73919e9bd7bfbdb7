// Quantization of moments outside of an update, for one instruction set.
#include "kernels/cpu/simd.h"

#include "kernels/cpu/moments_simd.h"  // after simd.h

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

HWY_NOINLINE inline void QuantizeMoments(MomentCode code, const float* x, int64_t n, uint8_t* codes,
                                         float* scales) {
  WriteSomeMoments(code, x, n, codes, scales);
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
