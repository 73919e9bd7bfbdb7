// y = factor * x, and soft caps.
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

// y = cap * tanh(x / cap)
struct SoftCapArgs {
  TensorView x;  // as ScaleArgs has it
  float cap = 1;
  TensorView y;  // written; may be x
};
void launch(Cpu, const Launch&, const SoftCapArgs&);
void launch(Gpu, const Launch&, const SoftCapArgs&);

}  // namespace tessera::kernels
