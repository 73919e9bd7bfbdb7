// Constants.
#pragma once

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

struct ClearArgs {
  TensorView y;  // written: all bytes zero
};
void launch(Cpu, const Launch&, const ClearArgs&);
void launch(Gpu, const Launch&, const ClearArgs&);

// Of the CPU.
void fill(const TensorView& y, float value, int threads);  // f32, bf16 or f16

}  // namespace tessera::kernels
