// The one-pass optimizers (base/optimizer_kind.h), for one instruction set.
#include "kernels/cpu/simd.h"
#include "kernels/cpu/update_operands.h"

#include "kernels/cpu/moments_simd.h"  // after simd.h
#include "kernels/cpu/philox_simd.h"   // after simd.h

#include "kernels/cpu/update_sweep_simd.h"  // after both

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// Reads the moments of some blocks, updates them in f32, and quantizes them. `rule` must not use
// the position of an element.
template <class Rule>
HWY_INLINE void SweepBlocks(const UpdateOperands& a, const UpdateRun& s, const Rule& rule) {
  constexpr int64_t kMost = 8 * kMomentBlock;
  alignas(64) float m[kMost], v[kMost];
  for (int64_t at = s.begin; at < s.end; at += kMost) {
    const int64_t n = HWY_MIN(kMost, s.end - at), block = at / kMomentBlock;
    UpdateOperands part = a;
    part.weights = a.weights + at;
    part.gradient = a.gradient + at;
    if (a.weights_low) part.weights_low = a.weights_low + at;
    if (a.coded_m) {
      ReadSomeMoments(MomentCode::kSigned, a.coded_m.codes + at, a.coded_m.scales + block, n, m);
      part.m = {m, DType::kF32};
    }
    if (a.coded_v) {
      ReadSomeMoments(MomentCode::kUnsigned, a.coded_v.codes + at, a.coded_v.scales + block, n, v);
      part.v = {v, DType::kF32};
    }
    Sweep(part, {0, n, s.decay, s.key, s.element + (at - s.begin)}, rule);
    if (a.coded_m)
      WriteSomeMoments(MomentCode::kSigned, m, n, a.coded_m.codes + at, a.coded_m.scales + block);
    if (a.coded_v)
      WriteSomeMoments(MomentCode::kUnsigned, v, n, a.coded_v.codes + at, a.coded_v.scales + block);
  }
}

template <class Rule>
HWY_INLINE void SweepMoments(const UpdateOperands& a, const UpdateRun& s, const Rule& rule) {
  if (a.coded_m || a.coded_v)
    SweepBlocks(a, s, rule);
  else
    Sweep(a, s, rule);
}

HWY_INLINE V Keep(const UpdateOperands& a, const UpdateRun& s) {
  return hn::Set(F(), s.decay ? a.keep : 1.0f);
}

HWY_NOINLINE inline void SweepAdamW(const UpdateOperands& a, const UpdateRun& s) {
  const F f;
  const V keep = Keep(a, s), beta2 = hn::Set(f, a.beta2);
  const V rest1 = hn::Set(f, a.one_minus_beta1), rest2 = hn::Set(f, a.one_minus_beta2);
  const V epsilon = hn::Set(f, a.epsilon), step = hn::Set(f, a.step_size);
  SweepMoments(a, s, [&](UpdateLanes& x, int64_t, int64_t) HWY_ATTR {
    x.m = hn::MulAdd(rest1, hn::Sub(x.g, x.m), x.m);
    x.v = hn::MulAdd(hn::Mul(x.g, x.g), rest2, hn::Mul(x.v, beta2));
    const V denominator = hn::Add(hn::Sqrt(x.v), epsilon);
    x.w = hn::NegMulAdd(step, hn::Div(x.m, denominator), hn::Mul(x.w, keep));
  });
}

HWY_NOINLINE inline void SweepLion(const UpdateOperands& a, const UpdateRun& s) {
  const F f;
  const V keep = Keep(a, s), beta1 = hn::Set(f, a.beta1), beta2 = hn::Set(f, a.beta2);
  const V rest1 = hn::Set(f, a.one_minus_beta1), rest2 = hn::Set(f, a.one_minus_beta2);
  const V step = hn::Set(f, a.learning_rate), one = hn::Set(f, 1.0f), zero = hn::Zero(f);
  SweepMoments(a, s, [&](UpdateLanes& x, int64_t, int64_t) HWY_ATTR {
    const V c = hn::Add(hn::Mul(x.m, beta1), hn::Mul(x.g, rest1));
    const V sign = hn::IfThenElse(hn::Eq(c, zero), zero, hn::CopySign(one, c));
    x.m = hn::Add(hn::Mul(x.m, beta2), hn::Mul(x.g, rest2));
    x.w = hn::NegMulAdd(step, sign, hn::Mul(x.w, keep));
  });
}

HWY_NOINLINE inline void SweepSgd(const UpdateOperands& a, const UpdateRun& s) {
  const F f;
  const V decay = hn::Set(f, s.decay ? a.weight_decay : 0.0f), beta1 = hn::Set(f, a.beta1);
  const V step = hn::Set(f, a.learning_rate);
  SweepMoments(a, s, [&](UpdateLanes& x, int64_t, int64_t) HWY_ATTR {
    const V g = hn::MulAdd(decay, x.w, x.g);
    x.m = hn::MulAdd(x.m, beta1, g);  // without a moment, m was 0 and is now g
    x.w = hn::NegMulAdd(step, x.m, x.w);
  });
}

// The weights between z and x that GEMMs read with schedule_free.
HWY_INLINE V Between(V z, V x, V beta1) { return hn::MulAdd(beta1, hn::Sub(x, z), z); }

// x.w is x, x.m is z.
HWY_NOINLINE inline void SweepScheduleFree(const UpdateOperands& a, const UpdateRun& s) {
  const F f;
  const V beta1 = hn::Set(f, a.beta1), beta2 = hn::Set(f, a.beta2);
  const V rest2 = hn::Set(f, a.one_minus_beta2), epsilon = hn::Set(f, a.epsilon);
  const V step = hn::Set(f, a.step_size), share = hn::Set(f, a.share);
  const V decay = hn::Set(f, s.decay ? a.learning_rate * a.weight_decay : 0.0f);
  Sweep(a, s, [&](UpdateLanes& x, int64_t, int64_t) HWY_ATTR {
    const V y = Between(x.m, x.w, beta1);
    x.v = hn::MulAdd(hn::Mul(x.g, x.g), rest2, hn::Mul(x.v, beta2));
    const V direction = hn::Div(x.g, hn::Add(hn::Sqrt(x.v), epsilon));
    x.m = hn::NegMulAdd(decay, y, hn::NegMulAdd(step, direction, x.m));
    x.w = hn::MulAdd(share, hn::Sub(x.m, x.w), x.w);
    return Between(x.m, x.w, beta1);
  });
}

HWY_NOINLINE inline void SweepInterpolate(Source from, Source towards, Sink to, float share,
                                          int64_t begin, int64_t end) {
  const V s = hn::Set(F(), share);
  for (int64_t i = begin; i < end; i += kLanes) {
    const int64_t n = end - i;
    StoreSome(Between(LoadSome(from, i, n), LoadSome(towards, i, n), s), to, i, n);
  }
}

// average += rate * (weights - average) of elements [begin, end).
HWY_NOINLINE inline void SweepAverage(Source weights, Sink average, float rate, int64_t begin,
                                      int64_t end) {
  const F f;
  const V r = hn::Set(f, rate);
  for (int64_t i = begin; i < end; i += kLanes) {
    const V e = LoadSome(average, i, end - i);
    const V w = LoadSome(weights, i, end - i);
    StoreSome(hn::MulAdd(r, hn::Sub(w, e), e), average, i, end - i);
  }
}

HWY_NOINLINE inline void SweepUpdate(const UpdateOperands& a, const UpdateRun& s) {
  switch (a.rule) {
    case OptimizerKind::kAdamW:
      return SweepAdamW(a, s);
    case OptimizerKind::kLion:
      return SweepLion(a, s);
    case OptimizerKind::kSgd:
      return SweepSgd(a, s);
    case OptimizerKind::kScheduleFree:
      return SweepScheduleFree(a, s);
    case OptimizerKind::kAdafactor:
    case OptimizerKind::kMuon:
      return;  // kernels/adafactor.h, kernels/muon.h
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
