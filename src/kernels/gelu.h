// Gaussian error linear unit (Hendrycks & Gimpel 2016), after an optional bias: u = x + bias.
//   erf    y = u * Phi(u),                Phi(u) = (1 + erf(u / sqrt 2)) / 2
//   tanh   y = u / (1 + exp(-2 z)),       z = sqrt(2/pi) * (u + 0.044715 u^3)
// f32 arithmetic. The relative error is below 3e-6 for |u| < 4 (3e-7 near 0 and above; the larger
// value is for large negative u, where y is tiny), the absolute error below 2e-7 |u| everywhere.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

enum class GeluKind : uint8_t { kErf, kTanh };

struct GeluArgs {
  GeluKind kind = GeluKind::kErf;
  TensorView x;     // [N, D] f32, bf16 or f16
  TensorView bias;  // [D], or none (no data)
  TensorView y;     // [N, D]  written; may alias x
};
void launch(Cpu, const Launch&, const GeluArgs&);
void launch(Gpu, const Launch&, const GeluArgs&);

struct GeluGradArgs {
  GeluKind kind = GeluKind::kErf;
  TensorView x;     // [N, D], as given to the forward
  TensorView bias;  // [D], or none (no data)
  TensorView dy;    // [N, D]
  TensorView dx;    // [N, D]  written: dy * gelu'(x + bias); may alias dy or x
  // [D] f32, bf16 or f16  added to: sum_n dx in f32, in fixed blocks of rows; or none
  TensorView dbias;
};
void launch(Cpu, const Launch&, const GeluGradArgs&);
void launch(Gpu, const Launch&, const GeluGradArgs&);
int64_t workspace_bytes(Cpu, const GeluGradArgs&, int threads);
int64_t workspace_bytes(Gpu, const GeluGradArgs&, int threads);

}  // namespace tessera::kernels
