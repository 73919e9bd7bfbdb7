// Products with one factor and soft caps, for one instruction set.
#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

HWY_NOINLINE inline void ScaleRange(Source x, float factor, Sink y, int64_t begin, int64_t end) {
  const V by = hn::Set(F(), factor);
  for (int64_t i = begin; i < end; i += kLanes)
    StoreSome(hn::Mul(LoadSome(x, i, end - i), by), y, i, end - i);
}

HWY_NOINLINE inline void CapRange(Source x, float cap, Sink y, int64_t begin, int64_t end) {
  const F f;
  const V by = hn::Set(f, cap), inverse = hn::Set(f, 1 / cap);
  for (int64_t i = begin; i < end; i += kLanes)
    StoreSome(hn::Mul(by, Tanh(f, hn::Mul(LoadSome(x, i, end - i), inverse))), y, i, end - i);
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
