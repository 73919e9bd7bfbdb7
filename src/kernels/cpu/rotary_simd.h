// The rotation of queries and keys, for one instruction set.
#include "kernels/cpu/rotary_rows.h"
#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// Replaces (a, b) by (a cos - b sin, b cos + a sin) for the pairs of one head. The vector length
// divides `half`.
template <class D>
HWY_INLINE void RotateHead(D d, Sink head, const float* table, int64_t half) {
  for (int64_t i = 0; i < half; i += static_cast<int64_t>(hn::Lanes(d))) {
    const auto a = Load(d, head, i), b = Load(d, head, half + i);
    const auto cosine = hn::LoadU(d, table + i), sine = hn::LoadU(d, table + half + i);
    Store(d, hn::NegMulAdd(b, sine, hn::Mul(a, cosine)), head, i);
    Store(d, hn::MulAdd(a, sine, hn::Mul(b, cosine)), head, half + i);
  }
}

template <class D>
HWY_INLINE void RotateTokens(D d, const RotaryRows& a, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; ++token) {
    const float* const table = a.table + token * 2 * a.half;
    for (int64_t kv = 0; kv < a.kv_heads; ++kv) {
      for (int64_t slot = 0; slot + 1 < a.slots; ++slot) {
        const int64_t at = ((token * a.kv_heads + kv) * a.slots + slot) * a.d;
        RotateHead(d, a.qkv + at, table, a.half);
      }
    }
  }
}

HWY_NOINLINE inline void RotateRows(const RotaryRows& a, int64_t begin, int64_t end) {
  if (a.half % kLanes == 0) {
    RotateTokens(F(), a, begin, end);
  } else if (a.half % 8 == 0) {
    RotateTokens(hn::CappedTag<float, 8>(), a, begin, end);
  } else {
    RotateTokens(hn::CappedTag<float, 1>(), a, begin, end);
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
