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
};

}  // namespace tessera::kernels
