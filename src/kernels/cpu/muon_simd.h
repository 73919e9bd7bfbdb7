// Muon's passes over a range, for one instruction set.
#include "kernels/cpu/simd.h"
#include "kernels/cpu/update_operands.h"
#include "kernels/muon.h"

#include "kernels/cpu/philox_simd.h"  // after simd.h

#include "kernels/cpu/update_sweep_simd.h"  // after both

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// Writes the directions of a range.
HWY_NOINLINE inline void SweepDirection(const UpdateOperands& a, const UpdateRun& s) {
  const F f;
  const V rest = hn::Set(f, a.one_minus_beta1), scale = hn::Set(f, a.scale);
  const V momentum = hn::Set(f, a.beta1);
  for (int64_t i = s.begin; i < s.end; i += kLanes) {
    const int64_t n = s.end - i;
    const V g = hn::Mul(hn::Mul(LoadSome(a.gradient, i, n), scale), rest);
    const V m = hn::MulAdd(momentum, LoadSome(a.m, i, n), g);
    const V u = a.nesterov ? hn::MulAdd(momentum, m, g) : m;
    StoreSome(u, a.directions, s.element - a.directions_from + (i - s.begin), n);
  }
}

HWY_NOINLINE inline void SweepMuon(const UpdateOperands& a, const UpdateRun& s) {
  const F f;
  const V keep = hn::Set(f, s.decay ? a.keep : 1.0f), rate = hn::Set(f, a.direction_rate);
  const V rest = hn::Set(f, a.one_minus_beta1), momentum = hn::Set(f, a.beta1);
  const V factor = hn::Set(f, a.row_factor);
  Sweep(a, s, [&](UpdateLanes& x, int64_t i, int64_t n) HWY_ATTR {
    const V u = LoadSome(a.directions, s.element - a.directions_from + (i - s.begin), n);
    x.m = hn::MulAdd(momentum, x.m, hn::Mul(x.g, rest));
    x.w = hn::Mul(hn::NegMulAdd(rate, u, hn::Mul(x.w, keep)), factor);
  });
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
