// Initial values on the CPU.
//
// Normal weights are a function of (key, global element): they are the same for any layout, number
// of threads and CPU. Element e uses block e / 4 of Philox{key}: its Philox words 0 and 1 give
// elements 0 (cosine) and 1 (sine) of four by the Box-Muller method, words 2 and 3 the other two:
//   u = (w0 / 2 + 1/2) / 2^31,   z0 = sqrt(-2 ln u) cos(2 pi w1 / 2^32),   z1 with the sine
// in f32, with an error of at most 1e-6 and at most 6.7 standard deviations from the mean.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace tessera::kernels {

struct NormalInitializer {
  uint64_t key = 0;   // hash_name(parameter name, seed)
  int64_t first = 0;  // global index of y's first element
  double mean = 0, deviation = 0.02;
};
void initialize_normal(const TensorView& y,  // [n] f32, bf16 or f16  written
                       const NormalInitializer& n, int threads);

// Sets every element to `value`.
void fill(const TensorView& y, float value, int threads);  // f32, bf16 or f16

}  // namespace tessera::kernels
