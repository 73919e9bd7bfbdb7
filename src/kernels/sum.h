// Sums of activations and of their rows. f32, bf16 or f16, each operand as it likes; sums in f32.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/tensor.h"

namespace tessera::kernels {

// out[n,d] = sum of terms[n,d] + sum of biases[d]; out may alias a term.
void sum(std::span<const TensorView> terms,   // 1 to 4 of [N, D]
         std::span<const TensorView> biases,  // 0 to 4 of [D]
         const TensorView& out);              // [N, D]  written

// dbias[d] += sum_n dy[n,d], in f32 by fixed blocks of rows, rounded once where dbias is of 16
// bits: the bits do not depend on the threads.
int64_t bias_grad_workspace_bytes(int64_t n, int64_t d);
void bias_grad(const TensorView& dy,     // [N, D]
               const TensorView& dbias,  // [D] f32, bf16 or f16  added to
               void* workspace);         // bias_grad_workspace_bytes(N, D)

}  // namespace tessera::kernels
