// The output biases of a mixture of experts: each token gets those of its experts, times their
// weights. Experts of other ranks are skipped.
//   y_t = Σ_j weights_tj · bias[choice_tj]
// Sums have a fixed order: for a token by its choices, for a bias by tokens. They are f32.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

struct ExpertBiasArgs {
  TensorView choice;   // [N, K] i32
  TensorView weights;  // [N, K] f32
  TensorView bias;     // [E, H] of this rank's experts, f32, bf16 or f16
  int64_t first = 0;   // index of this rank's first expert
  TensorView y;        // [N, H]  written
};
void launch(Cpu, const Launch&, const ExpertBiasArgs&);
void launch(Gpu, const Launch&, const ExpertBiasArgs&);

//   d_weights_tj = <bias[choice_tj], dy_t>,   d_bias[e] += Σ_tj weights_tj dy_t where choice_tj = e
struct ExpertBiasGradArgs {
  TensorView choice, weights, bias;
  int64_t first = 0;
  TensorView dy;         // [N, H]
  TensorView d_weights;  // [N, K] f32  written: 0 for experts of other ranks
  TensorView d_bias;     // [E, H] f32, bf16 or f16  added to; or no data
};
void launch(Cpu, const Launch&, const ExpertBiasGradArgs&);
void launch(Gpu, const Launch&, const ExpertBiasGradArgs&);
int64_t workspace_bytes(Cpu, const ExpertBiasGradArgs&, int threads);

}  // namespace tessera::kernels
