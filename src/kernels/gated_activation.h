// The gate of a feed-forward layer (Shazeer 2020). Each inner unit m has a gate g and a value u,
// which are adjacent in memory:
//   y[n,m] = act(g) * u,   g = x[n,m,0],  u = x[n,m,1]
//   silu   act(g) = g / (1 + exp(-g)): SwiGLU, LLaMA
//   erf, tanh: the two forms of kernels/gelu.h: GEGLU, T5 v1.1
// f32 arithmetic; y has a relative error below 3e-6 for |g| < 4.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

enum class GateKind : uint8_t { kSilu, kErf, kTanh };

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
  TensorView dx;  // [N, M, 2]  written: (dy * u * act'(g), dy * act(g)); may alias x
};
void launch(Cpu, const Launch&, const GatedActivationGradArgs&);
void launch(Gpu, const Launch&, const GatedActivationGradArgs&);

}  // namespace tessera::kernels
