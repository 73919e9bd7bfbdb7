// Vectors of floats for one instruction set. Included once per target by the *_simd.h files,
// which hwy/foreach_target.h includes again for every target: hence no include guard. The structs
// of their arguments do not depend on the target and must be defined once, so they are in headers
// with a guard, such as norm_rows.h.
#include "hwy/highway.h"
#include "kernels/cpu/operand.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
using V = hn::Vec<F>;
constexpr int64_t kLanes = hn::MaxLanes(F());

template <class D>
HWY_INLINE hn::Vec<D> WidenBF16(D d, const uint16_t* p) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, p))));
}

// The 16 bits of bf16 in the lower half of each lane. Rounds to nearest, ties to even; NaN becomes
// a quiet NaN of the same sign.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> BitsOfBF16(D, hn::Vec<D> v) {
  constexpr hn::RebindToUnsigned<D> d32;
  const auto u = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(u), hn::Set(d32, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(u, hn::Add(odd, hn::Set(d32, 0x7fffu))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(u), hn::Set(d32, 0x40u));
  const auto nan = hn::RebindMask(d32, hn::IsNaN(v));
  return hn::IfThenElse(nan, quiet, rounded);
}

template <class D>
HWY_INLINE void NarrowBF16(D d, hn::Vec<D> v, uint16_t* p) {
  constexpr hn::Rebind<uint16_t, D> d16;
  constexpr hn::RebindToSigned<D> di;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, BitsOfBF16(d, v))), d16, p);
}

// A half's bits, shifted to where a float has them, are 2^-112 of it, subnormals too.
template <class D>
HWY_INLINE hn::Vec<D> WidenF16(D d, const uint16_t* p) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto h = hn::PromoteTo(du, hn::LoadU(d16, p));
  const auto magnitude = hn::And(h, hn::Set(du, 0x7fffu));
  const auto sign = hn::ShiftLeft<16>(hn::Xor(h, magnitude));
  const auto scaled = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(magnitude)), hn::Set(d, 0x1p112f));
  const auto special = hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, 0x7bff));
  // Exponent 31 (infinity, NaN) becomes exponent 255; the payload of a NaN is kept.
  const auto bits = hn::IfThenElse(hn::RebindMask(du, special),
                                   hn::Or(hn::ShiftLeft<13>(magnitude), hn::Set(du, 0x7f800000u)),
                                   hn::BitCast(du, scaled));
  return hn::BitCast(d, hn::Or(bits, sign));
}

// The 16 bits of a half in the lower part of each lane: what F16(float) of base/dtype.h gives.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> BitsOfF16(D d, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto u = hn::BitCast(du, v);
  const auto magnitude = hn::And(u, hn::Set(du, 0x7fffffffu));
  const auto sign = hn::ShiftRight<16>(hn::Xor(u, magnitude));
  const auto above = [&](int32_t bits) {
    return hn::RebindMask(du, hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, bits - 1)));
  };
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
  // Normal halves: the exponent's bias changes from 127 to 15, hence minus 112 << 23. Adding half
  // of the last kept bit, minus one, plus that bit's own value rounds to nearest, ties to even; a
  // carry correctly raises the exponent.
  const auto rounded = hn::Add(magnitude, hn::Add(odd, hn::Set(du, 0xfffu - (112u << 23))));
  // Subnormal halves, below 2^-14: in [1/2, 1) the last bit of a float is 2^-24, the step of
  // subnormal halves. Adding 1/2 lets the hardware round to that step, and the lower bits of the
  // sum are the half.
  const auto sum = hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f));
  const auto small = hn::Sub(hn::BitCast(du, sum), hn::Set(du, 0x3f000000u));
  const auto quiet =
      hn::Or(hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x3ffu)), hn::Set(du, 0x7e00u));
  auto bits = hn::IfThenElse(above(0x38800000), hn::ShiftRight<13>(rounded), small);
  bits = hn::IfThenElse(above(0x477ff000), hn::Set(du, 0x7c00u), bits);  // 65,520
  bits = hn::IfThenElse(above(0x7f800001), quiet, bits);
  return hn::Or(bits, sign);
}

template <class D>
HWY_INLINE void NarrowF16(D d, hn::Vec<D> v, uint16_t* p) {
  constexpr hn::Rebind<uint16_t, D> d16;
  constexpr hn::RebindToSigned<D> di;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, BitsOfF16(d, v))), d16, p);
}

template <class D>
HWY_INLINE hn::Vec<D> Load(D d, Source s, int64_t i) {
  if (s.type == DType::kF32) return hn::LoadU(d, s.as<float>() + i);
  const uint16_t* p = s.as<uint16_t>() + i;
  return s.type == DType::kBF16 ? WidenBF16(d, p) : WidenF16(d, p);
}
template <class D>
HWY_INLINE void Store(D d, hn::Vec<D> v, Sink t, int64_t i) {
  if (t.type == DType::kF32) return hn::StoreU(v, d, t.as<float>() + i);
  uint16_t* p = t.as<uint16_t>() + i;
  if (t.type == DType::kBF16)
    NarrowBF16(d, v, p);
  else
    NarrowF16(d, v, p);
}

// The first n lanes; the others read as zero and are not written.
HWY_INLINE V LoadSome(Source s, int64_t i, int64_t n) {
  const F d;
  if (HWY_LIKELY(n >= kLanes)) return Load(d, s, i);
  alignas(64) float buffer[kLanes] = {};
  for (int64_t k = 0; k < n; ++k) buffer[k] = s[i + k];
  return hn::Load(d, buffer);
}
HWY_INLINE void StoreSome(V v, Sink t, int64_t i, int64_t n) {
  const F d;
  if (HWY_LIKELY(n >= kLanes)) return Store(d, v, t, i);
  alignas(64) float buffer[kLanes];
  hn::Store(v, d, buffer);
  for (int64_t k = 0; k < n; ++k) t.set(i + k, buffer[k]);
}

HWY_INLINE float SumLanes(V v) { return hn::GetLane(hn::SumOfLanes(F(), v)); }
HWY_INLINE float MaxLanes(V v) { return hn::GetLane(hn::MaxOfLanes(F(), v)); }

// e^x, relative error below 1.2e-7 (polynomial 9e-9, the rest rounding); 0 below -87.3, NaN for
// NaN, and e^88 above 88. e^x = 2^n e^r with |r| <= ln(2)/2, ln 2 in two parts.
template <class D>
HWY_INLINE hn::Vec<D> Exp(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  const auto lowest = hn::Set(d, -87.3f);
  const auto tiny = hn::Lt(x, lowest);
  // The operand that may be NaN is the second: x86's min and max return the second operand then.
  x = hn::Min(hn::Set(d, 88.0f), hn::Max(lowest, x));
  // Cody-Waite reduction: 0.693359375 has so few bits that n times it is exact, and the second
  // constant is the rest of ln 2. r keeps full precision for every n.
  const auto n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  auto p = hn::MulAdd(r, hn::Set(d, 1.3927685e-3f), hn::Set(d, 8.3643803e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.16665450e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.66665703e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), hn::Set(d, 1.0f));
  // 2^n by its bits: n + 127 in the exponent field.
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  return hn::IfThenZeroElse(tiny, hn::Mul(p, hn::BitCast(d, power)));
}

// tanh x, relative error below 3e-7. Near 0 a polynomial (Cephes), where 1 - 2 / (e^2x + 1)
// cancels.
template <class D>
HWY_INLINE hn::Vec<D> Tanh(D d, hn::Vec<D> x) {
  const auto z = hn::Mul(x, x), one = hn::Set(d, 1.0f);
  auto p = hn::MulAdd(z, hn::Set(d, -5.70498873e-3f), hn::Set(d, 2.06390888e-2f));
  p = hn::MulAdd(p, z, hn::Set(d, -5.37397156e-2f));
  p = hn::MulAdd(p, z, hn::Set(d, 1.33314422e-1f));
  p = hn::MulAdd(p, z, hn::Set(d, -3.33332819e-1f));
  const auto near = hn::MulAdd(hn::Mul(p, z), x, x);
  const auto magnitude = hn::Abs(x);
  const auto e = Exp(d, hn::Add(magnitude, magnitude));
  const auto far = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one)));
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0.625f)), near, hn::CopySign(far, x));
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
