// What the vector code of gelu works on.
#pragma once

#include "kernels/cpu/sum_rows.h"
#include "kernels/gelu.h"

namespace tessera::kernels {

struct GeluRows {
  bool erf;
  Source x, bias;
  Sink y;
  int64_t d;
};

struct GeluGradRows {
  bool erf;
  Source x, bias, dy;
  Sink dx;
  float* partials;  // [blocks, d], or none
  int64_t rows, d;
};

}  // namespace tessera::kernels
