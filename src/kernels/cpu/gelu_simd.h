// Rows of gelu and of its gradient, for one instruction set.
#include "kernels/cpu/activation_rows.h"
#include "kernels/cpu/simd.h"

#include "kernels/cpu/activation_simd.h"  // after simd.h

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

HWY_INLINE V GeluInput(Source x, Source bias, int64_t at, int64_t c, int64_t n) {
  const V u = LoadSome(x, at, n);
  return bias ? hn::Add(u, LoadSome(bias, c, n)) : u;
}

HWY_NOINLINE inline void GeluForward(const GeluRows& a, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t c = 0; c < a.d; c += kLanes) {
      const int64_t at = row * a.d + c, n = a.d - c;
      const V u = GeluInput(a.x, a.bias, at, c, n);
      StoreSome(a.erf ? GeluErf(u).y : GeluTanh(u).y, a.y, at, n);
    }
  }
}

HWY_NOINLINE inline void GeluGradBlock(const GeluGradRows& a, int64_t block) {
  float* const partial = a.partials == nullptr ? nullptr : a.partials + block * a.d;
  for (int64_t c = 0; partial != nullptr && c < a.d; ++c) partial[c] = 0;
  const int64_t end = HWY_MIN(a.rows, (block + 1) * kBlockRows);
  for (int64_t row = block * kBlockRows; row < end; ++row) {
    for (int64_t c = 0; c < a.d; c += kLanes) {
      const int64_t at = row * a.d + c, n = a.d - c;
      const V u = GeluInput(a.x, a.bias, at, c, n);
      const V slope = a.erf ? GeluErf(u).dy : GeluTanh(u).dy;
      const V dx = hn::Mul(LoadSome(a.dy, at, n), slope);
      StoreSome(dx, a.dx, at, n);
      if (partial != nullptr) {
        StoreSome(hn::Add(dx, LoadSome({partial, DType::kF32}, c, n)), {partial, DType::kF32}, c,
                  n);
      }
    }
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
