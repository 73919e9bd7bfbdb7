// Normalization over the last axis, alone or fused with the residual sum before it.
//   layer norm (Ba et al. 2016):          y = (x - mean) * rstd * gain + bias
//   RMS norm (Zhang & Sennrich 2019):     y = x * rstd * gain (+ bias)
//   with unit_offset, gain + 1 in place of gain
//   rstd = 1 / sqrt(var + epsilon), var = mean_d (x - mean)^2, with mean = 0 for RMS norm.
// x, terms and y are f32, bf16 or f16, in any combination; statistics are always f32.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "kernels/sum.h"
#include "kernels/up_to.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

enum class NormKind : uint8_t { kLayer, kRms };

// One result of a norm. Several results share the statistics of one x (parallel residual).
struct NormOutput {
  TensorView gain;  // [D]
  TensorView bias;  // [D], or no data: none
  TensorView y;     // [N, D]  written
};

constexpr size_t kMaxNormOutputs = 4;

struct Norm {
  NormKind kind = NormKind::kLayer;
  float epsilon = 1e-5f;
  UpTo<NormOutput, kMaxNormOutputs> outputs;  // one at least
  TensorView stats;  // [N, 2] f32  written: mean, rstd; no data: not computed
  bool unit_offset = false;
};

struct NormArgs {
  TensorView x;  // [N, D]
  Norm norm;
};
void launch(Cpu, const Launch&, const NormArgs&);
void launch(Gpu, const Launch&, const NormArgs&);

// out = sum of the terms + sum of the biases, then the norm of out, in one pass. The norm reads
// `out` as it is stored (after rounding to its dtype).
struct SumNormArgs {
  SumArgs sum;
  Norm norm;
};
void launch(Cpu, const Launch&, const SumNormArgs&);
void launch(Gpu, const Launch&, const SumNormArgs&);

// The gradient of one NormOutput:
//   xh = (x - mean) * rstd,   g = dy * gain
//   dx = rstd * (g - mean_d(g) - xh * mean_d(g * xh))       (RMS norm: without mean_d(g))
//   dgain += sum_n dy * xh,   dbias += sum_n dy             in f32, by fixed blocks of rows, and
// rounded once if their dtype has 16 bits, so the bits do not depend on the number of threads.
struct NormGradArgs {
  NormKind kind = NormKind::kLayer;
  TensorView x;      // [N, D]
  TensorView stats;  // [N, 2] f32
  TensorView gain;   // [D]
  TensorView dy;     // [N, D]
  TensorView dx;     // [N, D]  written, or added to; may alias dy when written
  bool accumulate_dx = false;
  TensorView dgain;  // [D] f32, bf16 or f16  added to
  TensorView dbias;  // [D] likewise; no data: none
  bool unit_offset = false;
};
void launch(Cpu, const Launch&, const NormGradArgs&);
void launch(Gpu, const Launch&, const NormGradArgs&);
int64_t workspace_bytes(Cpu, const NormGradArgs&, int threads);
int64_t workspace_bytes(Gpu, const NormGradArgs&, int threads);

}  // namespace tessera::kernels
