// The sum of squares of a flat range, in double, by fixed blocks of 4,096 elements: the same bits
// for any number of threads. A square of a float cannot overflow a double, so the sum is finite
// exactly if every element is.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace tessera::kernels {

constexpr int64_t kSquaresBlock = 4096;

int64_t squares_workspace_bytes(int64_t n);
double sum_of_squares(const TensorView& x,  // [n] f32, bf16 or f16
                      void* workspace);     // squares_workspace_bytes(n)

// Whether every element is finite, and the first that is not (or -1).
int64_t first_non_finite(const TensorView& x);

}  // namespace tessera::kernels
