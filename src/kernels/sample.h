// The choice of the next token.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

// temperature 0: the largest logit (the first of equals). Otherwise from softmax(logits /
// temperature), restricted to the top_k largest (0: all), then to the smallest set of largest
// probabilities that sums to at least top_p (Holtzman et al. 2020; 1: all).
struct Sampling {
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1;
};
int64_t sample_workspace_bytes(int64_t vocabulary);
// u in [0, 1) chooses by the cumulative sum over candidates from the most to the least probable.
int32_t sample(const TensorView& logits,  // [V] f32
               const Sampling& s, double u, void* workspace);

}  // namespace tessera::kernels
