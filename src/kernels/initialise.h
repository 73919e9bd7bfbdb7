// Initial weights as a function of (key, global element): the same on any layout and number of
// threads. Element e takes block e / 4 of Philox{key}; words 0 and 1 give elements 0 (cosine) and
// 1 (sine) of the four by Box-Muller in double, words 2 and 3 the others.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace tessera::kernels {

struct NormalInitialiser {
  uint64_t key = 0;   // hash_name(parameter name, seed)
  int64_t first = 0;  // global number of y's first element
  double mean = 0, deviation = 0.02;
};
void initialise_normal(const TensorView& y,  // [n] f32 or bf16  written
                       const NormalInitialiser& n);

}  // namespace tessera::kernels
