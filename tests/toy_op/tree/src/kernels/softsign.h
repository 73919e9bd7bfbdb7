// y = x / (1 + |x|), in f32.
#pragma once

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

struct SoftsignArgs {
  TensorView x;  // f32, bf16 or f16
  TensorView y;  // written; as many elements; may alias x
};
void launch(Cpu, const Launch&, const SoftsignArgs&);
void launch(Gpu, const Launch&, const SoftsignArgs&);

// dx = dy / (1 + |x|)^2
struct SoftsignGradArgs {
  TensorView x, dy;
  TensorView dx;  // written; may alias dy
};
void launch(Cpu, const Launch&, const SoftsignGradArgs&);
void launch(Gpu, const Launch&, const SoftsignGradArgs&);

}  // namespace tessera::kernels
