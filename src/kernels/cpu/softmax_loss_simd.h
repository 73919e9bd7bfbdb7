#include <cmath>

#include "kernels/cpu/softmax_loss.h"
#include "kernels/cpu/softmax_row_simd.h"
#include "kernels/cross_entropy.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

HWY_NOINLINE inline void LossOfRow(const LossRows& a, int64_t row) {
  const int64_t n = a.columns;
  float* const z = a.logits + row * n;
  const Sink out = a.rounded ? a.rounded + row * n : Sink(z, DType::kF32);
  const int32_t label = a.labels[row];
  if (label == kIgnoredLabel) {
    a.losses[row] = 0;
    if (a.squares != nullptr) a.squares[row] = 0;
    for (int64_t i = 0; a.gradient && i < n; i += kLanes) StoreSome(hn::Zero(F()), out, i, n - i);
    return;
  }
  // -ln p = ln sum_v e^(z_v - most) + (most - own). The difference is computed in f64
  // before the logarithm is added: for a confident row both are close to 0, so no digits cancel.
  const float cap = a.soft_cap, most = CappedOne(RowMax(z, n), cap);
  const double top = most, own = CappedOne(z[label], cap);
  const double sum = cap > 0 ? CappedExpSum(z, n, most, cap) : ExpSum(z, n, most, a.gradient);
  // Sum is at least 1, unless the row holds a NaN or an infinity: then so does the loss.
  const double log_sum = std::log(sum), lse = top + log_sum;
  a.losses[row] = log_sum + (top - own);
  if (a.squares != nullptr) a.squares[row] = lse * lse;
  if (!a.gradient) return;
  // The label's element is recomputed in f32, since in a rounded output the subtraction would lose
  // bits.
  const RowGradient g = row_gradient(a.extras, lse, sum, a.gradient_scale, n);
  if (cap > 0) return CappedGradient(z, n, most, cap, g, label, out);
  const float at_label = z[label] * g.slope - g.everywhere - g.at_label;
  ScaleRow(z, n, g.slope, g.everywhere, out);
  out.set(label, at_label);
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
