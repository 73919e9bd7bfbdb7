// Conversions, for one instruction set.
#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

HWY_NOINLINE inline void CastRange(Source x, Sink y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += kLanes) StoreSome(LoadSome(x, i, end - i), y, i, end - i);
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
