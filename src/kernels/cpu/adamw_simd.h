// The AdamW sweep, for one instruction set.
#include "kernels/cpu/adamw_range.h"
#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// `keep` is 1 - learning rate * weight decay.
HWY_NOINLINE inline void UpdateWeights(const AdamWRange& a, float keep, int64_t begin,
                                       int64_t end) {
  const F f;
  const V scale = hn::Set(f, a.scale), decay = hn::Set(f, keep), beta2 = hn::Set(f, a.beta2);
  const V rest1 = hn::Set(f, a.one_minus_beta1), rest2 = hn::Set(f, a.one_minus_beta2);
  const V root = hn::Set(f, a.root_bias_correction), epsilon = hn::Set(f, a.epsilon);
  const V step = hn::Set(f, a.step_size);
  const Sink weights(a.weights, false), ms(a.m, false), vs(a.v, false), low(a.weights_low, true);
  for (int64_t i = begin; i < end; i += kLanes) {
    const int64_t n = end - i;
    const V g = hn::Mul(LoadSome(a.gradient, i, n), scale);
    V m = LoadSome(ms, i, n), v = LoadSome(vs, i, n), w = LoadSome(weights, i, n);
    m = hn::MulAdd(rest1, hn::Sub(g, m), m);
    v = hn::MulAdd(hn::Mul(g, g), rest2, hn::Mul(v, beta2));
    const V denominator = hn::Add(hn::Div(hn::Sqrt(v), root), epsilon);
    w = hn::NegMulAdd(step, hn::Div(m, denominator), hn::Mul(w, decay));
    StoreSome(m, ms, i, n);
    StoreSome(v, vs, i, n);
    StoreSome(w, weights, i, n);
    if (low) StoreSome(w, low, i, n);
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
