// Initial values on the CPU.
//
// Normal weights are a function of (key, global element): the same on any layout, number of threads
// and CPU. Element e takes block e / 4 of Philox{key}; words 0 and 1 give elements 0 (cosine) and
// 1 (sine) of the four by Box-Muller, words 2 and 3 the others:
//   u = (w0 / 2 + 1/2) / 2^31,   z0 = sqrt(-2 ln u) cos(2 pi w1 / 2^32),   z1 with the sine
// in f32, within 1e-6 of exact, at most 6.7 deviations from the mean.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace tessera::kernels {

struct NormalInitialiser {
  uint64_t key = 0;   // hash_name(parameter name, seed)
  int64_t first = 0;  // global number of y's first element
  double mean = 0, deviation = 0.02;
};
void initialise_normal(const TensorView& y,  // [n] f32, bf16 or f16  written
                       const NormalInitialiser& n, int threads);

// Every element is `value`.
void fill(const TensorView& y, float value, int threads);  // f32, bf16 or f16

}  // namespace tessera::kernels
