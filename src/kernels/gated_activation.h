// The gate of a feed-forward layer (Shazeer 2020). Each inner unit m has a gate g and a value u,
// which are adjacent in memory:
//   y[n,m] = act(g) * u,   g = x[n,m,0],  u = x[n,m,1]
//   silu   act(g) = g / (1 + exp(-g)): SwiGLU, LLaMA
//   erf, tanh: the two forms of kernels/gelu.h: GEGLU, T5 v1.1
//   clamped: y[n,m] = act(min(g, 7)) * (clamp(u, -7, 7) + 1) with act(g) = g / (1 + exp(-1.702 g)):
//     gpt-oss (OpenAI 2025). Beyond a limit, the gradient of that operand is 0
// f32 arithmetic; y has a relative error below 3e-6 for |g| < 4.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

enum class GateKind : uint8_t { kSilu, kErf, kTanh, kClamped };
constexpr float kGateLimit = 7, kGateSlope = 1.702f;  // numbers of the clamped kind

struct GatedActivationArgs {
  GateKind kind = GateKind::kSilu;
  TensorView x;  // [N, M, 2] f32, bf16 or f16
  TensorView y;  // [N, M]  written
};
void launch(Cpu, const Launch&, const GatedActivationArgs&);
void launch(Gpu, const Launch&, const GatedActivationArgs&);

struct GatedActivationGradArgs {
  GateKind kind = GateKind::kSilu;
  TensorView x;   // [N, M, 2], as given to the forward
  TensorView dy;  // [N, M]
  TensorView dx;  // [N, M, 2]  written: dy times the derivatives by g and u; may alias x
};
void launch(Cpu, const Launch&, const GatedActivationGradArgs&);
void launch(Gpu, const Launch&, const GatedActivationGradArgs&);

}  // namespace tessera::kernels
