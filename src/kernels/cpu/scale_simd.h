// Products with one factor, for one instruction set.
#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

HWY_NOINLINE inline void ScaleRange(Source x, float factor, Sink y, int64_t begin, int64_t end) {
  const V by = hn::Set(F(), factor);
  for (int64_t i = begin; i < end; i += kLanes)
    StoreSome(hn::Mul(LoadSome(x, i, end - i), by), y, i, end - i);
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
