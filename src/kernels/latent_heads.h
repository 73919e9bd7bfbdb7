// Packs the heads of latent attention (DeepSeek-AI 2024), and separates their gradient. H heads of
// width D = N + R, whose keys share R numbers; values have V <= D numbers. All arrays have one
// dtype: f32, bf16 or f16. The R numbers that RoPE rotates come last and as pairs (0, 1), (2, 3), …
// and are packed first and as halves: 0, 2, …, 1, 3, …
#pragma once

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

struct LatentHeadsArgs {
  TensorView queries;   // [B, T, H, N+R]
  TensorView expanded;  // [B, T, H, N+V]: the rest of a key, then the value
  TensorView shared;    // [B, T, R]
  TensorView packed;    // [B, T, H, 3, D]  written; a value's row ends in zeros
};
void launch(Cpu, const Launch&, const LatentHeadsArgs&);
void launch(Gpu, const Launch&, const LatentHeadsArgs&);

struct LatentHeadsGradArgs {
  TensorView d_packed;    // [B, T, H, 3, D]
  TensorView d_queries;   // [B, T, H, N+R]  written
  TensorView d_expanded;  // [B, T, H, N+V]  written
  TensorView d_shared;    // [B, T, R]  written: sums over heads in f32, in their order
};
void launch(Cpu, const Launch&, const LatentHeadsGradArgs&);
void launch(Gpu, const Launch&, const LatentHeadsGradArgs&);

}  // namespace tessera::kernels
