// y = factor * x.
#pragma once

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

struct ScaleArgs {
  TensorView x;  // f32, bf16 or f16, as y; computed in f32
  float factor = 1;
  TensorView y;  // written; same size as x; may be x
};
void launch(Cpu, const Launch&, const ScaleArgs&);
void launch(Gpu, const Launch&, const ScaleArgs&);

}  // namespace tessera::kernels
