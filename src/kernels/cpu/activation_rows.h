// Arguments of the vectorized activations.
#pragma once

#include "kernels/cpu/sum_rows.h"
#include "kernels/gated_activation.h"
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

struct GatedRows {
  GateKind kind;
  Source x;  // pairs
  Sink y;
};

struct GatedGradRows {
  GateKind kind;
  Source x, dy;
  Sink dx;  // pairs
};

}  // namespace tessera::kernels
