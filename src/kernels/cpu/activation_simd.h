// Activations and their slopes, for one instruction set. Include after simd.h.
HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

struct ValueAndSlope {
  V y, dy;
};

// Returns the upper tail of the normal distribution for x >= 0: Q(x) = e^(-x^2/2) t P(2t - 1) with
// t = 1 / (1 + 0.3 x), where P is a Chebyshev approximation on [0, 14] with an error of 2e-9. Each
// side of zero is computed from its own tail, which avoids cancellation.
HWY_INLINE V UpperTail(V x, V gauss) {
  const F f;
  const V t = hn::Div(hn::Set(f, 1.0f), hn::MulAdd(x, hn::Set(f, 0.3f), hn::Set(f, 1.0f)));
  const V s = hn::Sub(hn::Add(t, t), hn::Set(f, 1.0f));
  V p = hn::MulAdd(s, hn::Set(f, -4.08483575e-5f), hn::Set(f, 7.78345857e-5f));
  p = hn::MulAdd(p, s, hn::Set(f, 2.80416949e-4f));
  p = hn::MulAdd(p, s, hn::Set(f, -5.70513832e-4f));
  p = hn::MulAdd(p, s, hn::Set(f, -2.42316350e-3f));
  p = hn::MulAdd(p, s, hn::Set(f, 1.81621511e-3f));
  p = hn::MulAdd(p, s, hn::Set(f, 2.77602579e-2f));
  p = hn::MulAdd(p, s, hn::Set(f, 8.65496993e-2f));
  p = hn::MulAdd(p, s, hn::Set(f, 1.64579496e-1f));
  p = hn::MulAdd(p, s, hn::Set(f, 2.21970618e-1f));
  return hn::Mul(hn::Mul(p, t), gauss);
}

// y = u Phi(u), y' = Phi(u) + u phi(u).
HWY_INLINE ValueAndSlope GeluErf(V u) {
  const F f;
  const V gauss = Exp(f, hn::Mul(hn::Mul(u, u), hn::Set(f, -0.5f)));
  const V tail = UpperTail(hn::Abs(u), gauss);
  const auto negative = hn::Lt(u, hn::Zero(f));
  const V phi = hn::IfThenElse(negative, tail, hn::Sub(hn::Set(f, 1.0f), tail));
  const V slope = hn::MulAdd(u, hn::Mul(gauss, hn::Set(f, 0.398942280f)), phi);
  return {hn::Mul(u, phi), slope};
}

// y = u s, y' = s + u s (1 - s) 2 z', with s the logistic function of 2 z.
HWY_INLINE ValueAndSlope GeluTanh(V u) {
  const F f;
  const V one = hn::Set(f, 1.0f), root = hn::Set(f, 2 * 0.797884561f);
  const V u2 = hn::Min(hn::Set(f, 1e4f), hn::Mul(u, u));  // avoids 0 * infinity
  const V z2 = hn::Mul(hn::Mul(root, u), hn::MulAdd(u2, hn::Set(f, 0.044715f), one));
  const V e = Exp(f, hn::Neg(z2));
  const V s = hn::Div(one, hn::Add(one, e)), rest = hn::Mul(e, s);  // 1 - s without cancellation
  const V dz2 = hn::Mul(root, hn::MulAdd(u2, hn::Set(f, 3 * 0.044715f), one));
  const V y = hn::Mul(u, s);
  return {y, hn::MulAdd(hn::Mul(y, rest), dz2, s)};
}

// y = u s, y' = s + u s (1 - s), with s the logistic function of u.
HWY_INLINE ValueAndSlope Silu(V u) {
  const F f;
  const V one = hn::Set(f, 1.0f), e = Exp(f, hn::Neg(u));
  const V s = hn::Div(one, hn::Add(one, e)), rest = hn::Mul(e, s);  // 1 - s without cancellation
  const V y = hn::Mul(u, s);
  return {y, hn::MulAdd(y, rest, s)};
}

// y = u s, y' = s + u s (1 - s) slope, with s the logistic function of slope u.
HWY_INLINE ValueAndSlope Swish(V u, float slope) {
  const F f;
  const V one = hn::Set(f, 1.0f), steep = hn::Set(f, slope);
  const V e = Exp(f, hn::Neg(hn::Mul(steep, u)));
  const V s = hn::Div(one, hn::Add(one, e)), rest = hn::Mul(e, s);  // 1 - s without cancellation
  const V y = hn::Mul(u, s);
  return {y, hn::MulAdd(hn::Mul(y, rest), steep, s)};
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
