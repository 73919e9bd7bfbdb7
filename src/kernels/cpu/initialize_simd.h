// Normally distributed numbers, for one instruction set. Every operation is correctly rounded and
// none is fused, so all targets give the same bits.
#include "kernels/cpu/random_rows.h"
#include "kernels/cpu/simd.h"
// Include after simd.h.
#include "kernels/cpu/philox_simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// Returns c0 + c1 z + … by Horner's method, with one rounding per operation.
template <class... C>
HWY_INLINE V Polynomial(V z, float c, C... more) {
  const F d;
  if constexpr (sizeof...(more) == 0)
    return hn::Set(d, c);
  else
    return hn::Add(hn::Mul(Polynomial(z, more...), z), hn::Set(d, c));
}

// Returns -2 ln u for u = (w / 2 + 1/2) / 2^31; the result is never negative. f = u 2^31 = 2^e m
// with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh s with s = (m - 1) / (m + 1).
template <class Words>
HWY_INLINE V MinusTwoLog(Words w) {
  const F d;
  const hn::RebindToSigned<F> di;
  const auto half = hn::BitCast(di, hn::ShiftRight<1>(w));
  const V f = hn::Add(hn::ConvertTo(d, half), hn::Set(d, 0.5f));
  constexpr int32_t kRootHalf = 0x3f3504f3;  // the bits of sqrt(1/2)
  // Subtracting the bits of sqrt(1/2) leaves e above bit 23; the rest, added back, gives m.
  const auto bits = hn::Sub(hn::BitCast(di, f), hn::Set(di, kRootHalf));
  const auto e = hn::ShiftRight<23>(bits);
  const V m = hn::BitCast(d, hn::Add(hn::And(bits, hn::Set(di, 0x7fffff)), hn::Set(di, kRootHalf)));
  const V one = hn::Set(d, 1.0f);
  const V s = hn::Div(hn::Sub(m, one), hn::Add(m, one)), z = hn::Mul(s, s);
  const V log = hn::Mul(hn::Mul(s, hn::Set(d, 2.0f)),
                        Polynomial(z, 1.0f, 0.333333433f, 0.1999439f, 0.147899747f));
  const V power = hn::ConvertTo(d, hn::Sub(hn::Set(di, 31), e));
  const V minus = hn::Sub(hn::Mul(power, hn::Set(d, 0.693147181f)), log);
  return hn::Max(hn::Zero(d), hn::Add(minus, minus));
}

// Computes cos and sin of 2 pi w / 2^32 by quadrants, with r in [-1/2, 1/2) of a quadrant. Integers
// are unsigned because these sums wrap around.
template <class Words>
HWY_INLINE void CosSin(Words w, V& cosine, V& sine) {
  const F d;
  const hn::RebindToUnsigned<F> du;
  const hn::RebindToSigned<F> di;
  const auto quarter = hn::ShiftRight<30>(hn::Add(w, hn::Set(du, 1u << 29)));
  const auto rest = hn::BitCast(di, hn::Sub(w, hn::ShiftLeft<30>(quarter)));
  const V r = hn::Mul(hn::ConvertTo(d, rest), hn::Set(d, 0x1p-30f)), z = hn::Mul(r, r);
  const V s = hn::Mul(r, Polynomial(z, 1.57079637f, -0.64596349f, 0.0796802193f, -0.00460214913f));
  const V c = Polynomial(z, 1.0f, -1.23370051f, 0.253669411f, -0.0208615288f, 0.000906739908f);
  const auto one = hn::Set(du, 1u);
  const auto odd = hn::RebindMask(d, hn::Eq(hn::And(quarter, one), one));
  // Quadrants 1 and 2 have a negative cosine, 2 and 3 a negative sine.
  const auto minus_c = hn::ShiftLeft<31>(hn::ShiftRight<1>(hn::Add(quarter, one)));
  const auto minus_s = hn::ShiftLeft<31>(hn::ShiftRight<1>(quarter));
  cosine = hn::Xor(hn::IfThenElse(odd, s, c), hn::BitCast(d, minus_c));
  sine = hn::Xor(hn::IfThenElse(odd, c, s), hn::BitCast(d, minus_s));
}

// Generates the kPhiloxWords elements of a chunk.
HWY_INLINE void DrawNormals(const NormalRange& a, int64_t chunk, float* z) {
  const F d;
  const hn::RebindToUnsigned<F> du;
  alignas(64) uint32_t words[kPhiloxWords];
  PhiloxWords(a.key, chunk * kPhiloxBlocks, 0, words);
  for (int64_t i = 0; i < kPhiloxWords; i += 2 * kLanes) {
    hn::Vec<decltype(du)> w0, w1;
    hn::LoadInterleaved2(du, words + i, w0, w1);
    V cosine, sine;
    CosSin(w1, cosine, sine);
    const V radius = hn::Mul(hn::Sqrt(MinusTwoLog(w0)), hn::Set(d, a.deviation));
    const V mean = hn::Set(d, a.mean);
    hn::StoreInterleaved2(hn::Add(hn::Mul(radius, cosine), mean),
                          hn::Add(hn::Mul(radius, sine), mean), d, z + i);
  }
}

// Writes the elements of [a.first, a.last) in chunks [begin, end) of kPhiloxWords each.
HWY_NOINLINE inline void NormalChunks(const NormalRange& a, int64_t begin, int64_t end) {
  const F d;
  alignas(64) float z[kPhiloxWords];
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    DrawNormals(a, chunk, z);
    const int64_t start = chunk * kPhiloxWords;
    const int64_t from = HWY_MAX(a.first - start, 0), to = HWY_MIN(a.last - start, kPhiloxWords);
    for (int64_t i = from; i < to; i += kLanes) {
      if (to - i >= kLanes) {
        Store(d, hn::LoadU(d, z + i), a.to, start + i - a.first);
        continue;
      }
      for (int64_t k = i; k < to; ++k) a.to.set(start + k - a.first, z[k]);
    }
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
