// Arguments of the vectorized loops of expert_bias_simd.h.
#pragma once

#include <cstdint>

#include "kernels/cpu/operand.h"

namespace tessera::kernels {

// The pairs of a token and a choice, and the biases of the experts first … first + experts - 1.
struct ExpertBiasRows {
  const int32_t* choice;
  const float* weights;
  Source bias;  // [experts, hidden]
  int64_t first, experts, hidden, chosen;

  // The row of the bias of a pair; -1 for an expert of another rank or a dropped pair.
  int64_t row(int64_t pair) const {
    const int64_t e = choice[pair] - first;
    return e >= 0 && e < experts ? e : -1;
  }
};

}  // namespace tessera::kernels
