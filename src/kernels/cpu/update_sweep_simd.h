// The pass over the elements that all updates share, for one instruction set. Include after simd.h
// and philox_simd.h, once per target, so it has no include guard.
HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

using U32 = hn::RebindToUnsigned<F>;
using Words = hn::Vec<U32>;

// Returns the bf16 bits of x, rounded stochastically: adding 16 random bits carries into the kept
// half with a probability equal to the dropped fraction. An infinity has no bits below the kept
// ones, so it does not change; NaN stays NaN.
HWY_INLINE Words BitsOfStochastic(V x, Words r) {
  const U32 u32;
  const Words u = hn::BitCast(u32, x), rounded = hn::ShiftRight<16>(hn::Add(u, r));
  const Words quiet = hn::Or(hn::ShiftRight<16>(u), hn::Set(u32, 0x40u));
  return hn::IfThenElse(hn::RebindMask(u32, hn::IsNaN(x)), quiet, rounded);
}

HWY_INLINE void StoreStochastic(V x, Words r, Sink to, int64_t i, int64_t n) {
  if (to.type != DType::kBF16) return StoreSome(x, to, i, n);
  const hn::Rebind<uint16_t, F> d16;
  const hn::RebindToSigned<F> di;
  uint16_t* p = to.as<uint16_t>() + i;
  const auto bits = hn::DemoteTo(d16, hn::BitCast(di, BitsOfStochastic(x, r)));
  if (HWY_LIKELY(n >= kLanes)) return hn::StoreU(bits, d16, p);
  alignas(64) uint16_t buffer[kLanes];
  hn::Store(bits, d16, buffer);
  for (int64_t k = 0; k < n; ++k) p[k] = buffer[k];
}

struct UpdateLanes {
  V g, w, m, v;
};

HWY_INLINE UpdateLanes LoadLanes(const UpdateOperands& a, int64_t i, int64_t n) {
  UpdateLanes x;
  const F f;
  x.g = hn::Mul(LoadSome(a.gradient, i, n), hn::Set(f, a.scale));
  x.w = LoadSome(a.weights, i, n);
  x.m = a.m ? LoadSome(a.m, i, n) : hn::Zero(f);
  x.v = a.v ? LoadSome(a.v, i, n) : hn::Zero(f);
  return x;
}

// Calls rule(lanes, i, n), which updates w, m and v of elements [i, i + n), with rounding to
// nearest.
template <class Rule>
HWY_INLINE void SweepNearest(const UpdateOperands& a, const UpdateRun& s, const Rule& rule) {
  for (int64_t i = s.begin; i < s.end; i += kLanes) {
    const int64_t n = s.end - i;
    UpdateLanes x = LoadLanes(a, i, n);
    rule(x, i, n);
    if (a.m) StoreSome(x.m, a.m, i, n);
    if (a.v) StoreSome(x.v, a.v, i, n);
    StoreSome(x.w, a.weights, i, n);
    if (a.weights_low) StoreSome(x.w, a.weights_low, i, n);
  }
}

template <class Rule>
HWY_INLINE void SweepStochastic(const UpdateOperands& a, const UpdateRun& s, const Rule& rule) {
  const U32 u32;
  const Words low = hn::Set(u32, 0xffffu);
  constexpr int64_t kDrawn = HWY_MAX(kLanes, 4);
  alignas(64) uint32_t words[4 * kDrawn + 16] = {};  // the last vector may exceed 4 * kDrawn
  int64_t at = s.begin;
  while (at < s.end) {
    // Random words belong to global elements, four per Philox block. A range may begin within a
    // block, and then its first `lead` words are skipped: the rounding of an element does not
    // depend on the layout.
    const int64_t element = s.element + (at - s.begin), lead = element % 4;
    PhiloxWords<kDrawn>(s.key, element / 4, a.lane, words);
    const int64_t n = HWY_MIN(4 * kDrawn - lead, s.end - at);
    for (int64_t i = 0; i < n; i += kLanes) {
      const int64_t live = HWY_MIN(n - i, kLanes);
      const Words r = hn::LoadU(u32, words + lead + i);
      const Words upper = hn::ShiftRight<16>(r), lower = hn::And(r, low);
      UpdateLanes x = LoadLanes(a, at + i, live);
      rule(x, at + i, live);
      if (a.m) StoreStochastic(x.m, lower, a.m, at + i, live);
      if (a.v) StoreStochastic(x.v, hn::Xor(upper, lower), a.v, at + i, live);
      StoreStochastic(x.w, upper, a.weights, at + i, live);
      if (a.weights_low) StoreSome(x.w, a.weights_low, at + i, live);
    }
    at += n;
  }
}

// Handles the usual types with constants, since branches on types would slow down the generation of
// random numbers.
template <class Rule>
HWY_INLINE void SweepBf16(UpdateOperands a, const UpdateRun& s, const Rule& rule) {
  a.weights.type = a.m.type = a.v.type = DType::kBF16;
  a.gradient.type = DType::kF32;
  a.weights_low = {};
  SweepStochastic(a, s, rule);
}

HWY_INLINE bool IsBf16(const UpdateOperands& a) {
  return a.weights.type == DType::kBF16 && a.m && a.m.type == DType::kBF16 && a.v &&
         a.v.type == DType::kBF16 && a.gradient.type == DType::kF32 && !a.weights_low;
}

template <class Rule>
HWY_INLINE void Sweep(const UpdateOperands& a, const UpdateRun& s, const Rule& rule) {
  if (!a.stochastic)
    SweepNearest(a, s, rule);
  else if (IsBf16(a))
    SweepBf16(a, s, rule);
  else
    SweepStochastic(a, s, rule);
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
