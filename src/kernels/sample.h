// Samples the next token.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

// With temperature 0, the token with the largest logit (the first of equals). Otherwise a sample
// from softmax(logits / temperature), restricted to the top_k largest (0: all), then to the
// smallest set of most probable tokens with a sum of at least top_p (Holtzman et al. 2020; 1: all),
// then to the tokens with at least min_p times the largest probability (Nguyen et al. 2024; 0:
// all).
struct Sampling {
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
};
int64_t sample_workspace_bytes(int64_t vocabulary);
// Returns the token that u in [0, 1) selects in the cumulative sum over the candidates in the order
// of descending probability.
int32_t sample(const TensorView& logits,  // [V] f32
               const Sampling& s, double u, void* workspace);

}  // namespace tessera::kernels
