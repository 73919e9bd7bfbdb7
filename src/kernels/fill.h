// Constants.
#pragma once

#include "tensor/tensor.h"

namespace tessera::kernels {

void clear(const TensorView& y);              // all bytes zero
void fill(const TensorView& y, float value);  // f32, bf16 or f16

}  // namespace tessera::kernels
