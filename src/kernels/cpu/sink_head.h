// Argument of the vectorized loop of sinks_simd.h.
#pragma once

#include <cstdint>

#include "kernels/cpu/operand.h"

namespace tessera::kernels {

// One head of one sample: rows of d elements at distances of `stride`.
struct SinkHead {
  float sink;
  const float* lse;  // [rows]
  Source out, d_out;
  int64_t rows, d, stride;
};

}  // namespace tessera::kernels
