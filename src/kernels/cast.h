// Conversions between f32, bf16 and f16 (round to nearest, ties to even; NaN stays NaN), and
// copies.
#pragma once

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

struct CastArgs {
  TensorView x;
  TensorView y;  // written: x in y's dtype; same size as x; no overlap
};
void launch(Cpu, const Launch&, const CastArgs&);
void launch(Gpu, const Launch&, const CastArgs&);

}  // namespace tessera::kernels
