// Cross-entropy of logits with labels, and its gradient.
//
//   p[n, v] = e^(z[n, v]) / sum_u e^(z[n, u])
//   loss    = sum_n -ln p[n, label[n]]                nats, over the rows whose label counts
//   dz      = gradient_scale * (p[n, v] - [v = label[n]])         0 in ignored rows
//
// With a z-loss coefficient c, label smoothing e, and lse = ln sum_u e^(z[n, u]) (the terms are in
// ir/ops/cross_entropy.h; the loss above does not change):
//
//   z_loss  = sum_n c lse^2
//   dz      = gradient_scale * ((1 + 2 c lse) p[n, v] - (1 - e) [v = label[n]] - e / V)
//
// With a soft cap c, c tanh(z / c) replaces z, and dz is multiplied by 1 - tanh^2(z / c). The
// gradient is that of the sum of the losses; the optimizer divides it by the number of tokens in
// the global batch. A row is summed in blocks of f32 whose sums are added in f64. Rows are added in
// f64 in their order, so the result does not depend on the number of threads. A logit that is NaN
// or +inf makes the loss NaN.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

constexpr int32_t kIgnoredLabel = -100;

// The terms next to the cross-entropy. 0: without.
struct LossExtras {
  float z_loss = 0;           // c
  float label_smoothing = 0;  // e, below 1
  bool operator==(const LossExtras&) const = default;
};

struct CrossEntropyArgs {
  TensorView logits;         // [N, V] f32; with `gradient`: overwritten by dz
  TensorView labels;         // [N] i32: 0 … V-1, or kIgnoredLabel; CHECKed
  double* report = nullptr;  // [0] += loss, [1] += rows that count; or none
  bool gradient = false;
  float soft_cap = 0;  // 0: none
  LossExtras extras = {};
  double* z_report = nullptr;  // += z_loss, with extras.z_loss; or none
  float gradient_scale = 1.0f;
  const double* loss_scale = nullptr;  // where the kernel runs: times gradient_scale; or none
};
void launch(Cpu, const Launch&, const CrossEntropyArgs&);
void launch(Gpu, const Launch&, const CrossEntropyArgs&);
int64_t workspace_bytes(Cpu, const CrossEntropyArgs&, int threads);
int64_t workspace_bytes(Gpu, const CrossEntropyArgs&, int threads);

// The factors of one row's gradient: dz = slope * e^(z - most) - everywhere - at_label [v = label].
// `sum` is the row's sum of e^(z - most), lse = most + ln sum, `scale` the gradient's scale.
struct RowGradient {
  float slope = 0, everywhere = 0, at_label = 0;
};
constexpr RowGradient row_gradient(const LossExtras& extras, double lse, double sum, float scale,
                                   int64_t vocabulary) {
  const double s = scale, c = extras.z_loss, e = extras.label_smoothing;
  return {static_cast<float>(s * (1 + 2 * c * lse) / sum),
          static_cast<float>(s * e / static_cast<double>(vocabulary)),
          static_cast<float>(s * (1 - e))};
}

// Returns the number of f64 per row that a kernel of whole rows needs as workspace: the loss and,
// with a z-loss, lse^2.
constexpr int64_t numbers_per_row(const LossExtras& extras) { return extras.z_loss > 0 ? 2 : 1; }

// Returns the factor of the gradient, for CPU kernels.
inline float scaled_by(float gradient_scale, const double* loss_scale) {
  return loss_scale == nullptr ? gradient_scale : gradient_scale * static_cast<float>(*loss_scale);
}

}  // namespace tessera::kernels
