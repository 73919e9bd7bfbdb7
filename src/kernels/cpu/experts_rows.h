// Arguments of the vectorized loops over the rows of a tile of experts.
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

}  // namespace tessera::kernels
