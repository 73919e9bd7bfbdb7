// Conversions, scaling, soft caps and sums of flat ranges, for one instruction set. Numbers are
// widened to f32 as they are read and rounded once as they are written.
#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// y = x in the type of y, for elements [begin, end).
HWY_NOINLINE inline void CastRange(Source x, Sink y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += kLanes) StoreSome(LoadSome(x, i, end - i), y, i, end - i);
}

// y = factor * x, for elements [begin, end).
HWY_NOINLINE inline void ScaleRange(Source x, float factor, Sink y, int64_t begin, int64_t end) {
  const V by = hn::Set(F(), factor);
  for (int64_t i = begin; i < end; i += kLanes)
    StoreSome(hn::Mul(LoadSome(x, i, end - i), by), y, i, end - i);
}

// y = cap * tanh(x / cap), for elements [begin, end).
HWY_NOINLINE inline void CapRange(Source x, float cap, Sink y, int64_t begin, int64_t end) {
  const F f;
  const V by = hn::Set(f, cap), inverse = hn::Set(f, 1 / cap);
  for (int64_t i = begin; i < end; i += kLanes)
    StoreSome(hn::Mul(by, Tanh(f, hn::Mul(LoadSome(x, i, end - i), inverse))), y, i, end - i);
}

// sink += from.
HWY_NOINLINE inline void AddRowTo(Source from, Sink sink, int64_t n) {
  for (int64_t c = 0; c < n; c += kLanes) {
    StoreSome(hn::Add(LoadSome(sink, c, n - c), LoadSome(from, c, n - c)), sink, c, n - c);
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
