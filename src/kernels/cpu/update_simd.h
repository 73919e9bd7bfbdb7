// The one-pass optimizers (base/optimizer_kind.h), for one instruction set.
#include "kernels/cpu/simd.h"
#include "kernels/cpu/update_operands.h"

#include "kernels/cpu/philox_simd.h"  // after simd.h

#include "kernels/cpu/update_sweep_simd.h"  // after both

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

HWY_INLINE V Keep(const UpdateOperands& a, const UpdateRun& s) {
  return hn::Set(F(), s.decay ? a.keep : 1.0f);
}

HWY_NOINLINE inline void SweepAdamW(const UpdateOperands& a, const UpdateRun& s) {
  const F f;
  const V keep = Keep(a, s), beta2 = hn::Set(f, a.beta2);
  const V rest1 = hn::Set(f, a.one_minus_beta1), rest2 = hn::Set(f, a.one_minus_beta2);
  const V epsilon = hn::Set(f, a.epsilon), step = hn::Set(f, a.step_size);
  Sweep(a, s, [&](UpdateLanes& x, int64_t, int64_t) HWY_ATTR {
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
  Sweep(a, s, [&](UpdateLanes& x, int64_t, int64_t) HWY_ATTR {
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
  Sweep(a, s, [&](UpdateLanes& x, int64_t, int64_t) HWY_ATTR {
    const V g = hn::MulAdd(decay, x.w, x.g);
    x.m = hn::MulAdd(x.m, beta1, g);  // without a moment, m was 0 and is now g
    x.w = hn::NegMulAdd(step, x.m, x.w);
  });
}

HWY_NOINLINE inline void SweepUpdate(const UpdateOperands& a, const UpdateRun& s) {
  switch (a.rule) {
    case OptimizerKind::kAdamW:
      return SweepAdamW(a, s);
    case OptimizerKind::kLion:
      return SweepLion(a, s);
    case OptimizerKind::kSgd:
      return SweepSgd(a, s);
    case OptimizerKind::kAdafactor:
    case OptimizerKind::kMuon:
      return;  // kernels/adafactor.h, kernels/muon.h
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
