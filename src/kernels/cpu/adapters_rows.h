// The rows of a weight with an adapter, as the vector code reads them.
#pragma once

#include "kernels/adapters.h"
#include "kernels/cpu/operand.h"

namespace tessera::kernels {

struct AdaptedRows {
  Source w, a, b;
  float* squares;
  float scale;
  int64_t rank, inputs;
  PartColumns part;

  // Returns the row of the weight for a row of the part.
  int64_t row_of_weight(int64_t row) const {
    return row / part.count * part.width + part.first + row % part.count;
  }
};

}  // namespace tessera::kernels
