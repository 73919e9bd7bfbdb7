// Operands of the vectorized norm kernels.
#pragma once

#include "kernels/cpu/sum_rows.h"
#include "kernels/norm.h"

namespace tessera::kernels {

struct NormRows {
  struct Output {
    Source gain, bias;
    Sink y;
  };
  SumRows sum;  // its `out` is the norm's input; no terms: it is there already
  Output outputs[kMaxNormOutputs];
  int output_count = 0;
  bool centered = true;           // layer norm
  float epsilon = 0, offset = 0;  // offset: added to gains
  float* stats = nullptr;
};

struct NormGradRows {
  Source x, gain, dy;
  Sink dx;
  const float* stats;  // [N, 2]
  float* partials;     // [blocks, 2, d]: sums of dy * xh and of dy
  int64_t rows, d;
  bool centered, accumulate;
  float offset;
};

}  // namespace tessera::kernels
