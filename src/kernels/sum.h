// Sums of activations and of their rows. Each operand is f32, bf16 or f16; sums are f32.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "kernels/up_to.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

constexpr size_t kMaxTerms = 4;
using Summands = UpTo<TensorView, kMaxTerms>;

// out[n,d] = sum of terms[n,d] + sum of biases[d]
struct SumArgs {
  Summands terms;   // [N, D] each; at least one
  Summands biases;  // [D] each
  TensorView out;   // [N, D]  written; may alias a term
};
void launch(Cpu, const Launch&, const SumArgs&);
void launch(Gpu, const Launch&, const SumArgs&);

// dbias[d] += sum_n dy[n,d], in f32 in fixed blocks of rows; a 16-bit dbias is rounded once. The
// bits do not depend on the number of threads.
struct BiasGradArgs {
  TensorView dy;     // [N, D]
  TensorView dbias;  // [D] f32, bf16 or f16  added to
};
void launch(Cpu, const Launch&, const BiasGradArgs&);
void launch(Gpu, const Launch&, const BiasGradArgs&);
int64_t workspace_bytes(Cpu, const BiasGradArgs&, int threads);
int64_t workspace_bytes(Gpu, const BiasGradArgs&, int threads);

}  // namespace tessera::kernels
