// Arguments of the vectorized loops over the rows of experts and of their biases.
#pragma once

#include <cstdint>

#include "kernels/cpu/operand.h"

namespace tessera::kernels {

// sum += factor · x, over n elements.
struct ScaledRow {
  float* sum;
  Source x;
  float factor;
  int64_t n;
};

// Returns <x, y>, and multiplies both by `factor`.
struct RowPair {
  Sink x, y;
  float factor;
  int64_t n;
};

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
