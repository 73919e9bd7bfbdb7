// Cross-entropy of logits with labels, and its gradient.
//
//   p[n, v] = e^(z[n, v]) / sum_u e^(z[n, u])
//   loss    = sum_n -ln p[n, label[n]]                    nats, over the rows whose label is not
//   ignored dz      = gradient_scale * (p[n, v] - [v = label[n]])  0 in ignored rows
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

struct CrossEntropyArgs {
  TensorView logits;         // [N, V] f32; with `gradient`: overwritten by dz
  TensorView labels;         // [N] i32: 0 … V-1, or kIgnoredLabel; CHECKed
  double* report = nullptr;  // [0] += loss, [1] += rows that count; or none
  bool gradient = false;
  float soft_cap = 0;  // 0: none
  float gradient_scale = 1.0f;
  const double* loss_scale = nullptr;  // where the kernel runs: times gradient_scale; or none
};
void launch(Cpu, const Launch&, const CrossEntropyArgs&);
void launch(Gpu, const Launch&, const CrossEntropyArgs&);
int64_t workspace_bytes(Cpu, const CrossEntropyArgs&, int threads);
int64_t workspace_bytes(Gpu, const CrossEntropyArgs&, int threads);

// Returns the factor of the gradient, for CPU kernels.
inline float scaled_by(float gradient_scale, const double* loss_scale) {
  return loss_scale == nullptr ? gradient_scale : gradient_scale * static_cast<float>(*loss_scale);
}

}  // namespace tessera::kernels
