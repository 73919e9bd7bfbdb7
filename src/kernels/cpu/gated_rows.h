// What the vector code of the gated activation works on.
#pragma once

#include "kernels/cpu/operand.h"
#include "kernels/gated_activation.h"

namespace tessera::kernels {

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
