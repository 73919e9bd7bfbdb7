// y = factor * x.
#pragma once

#include "tensor/tensor.h"

namespace tessera::kernels {

// f32 or bf16 each, computed in f32; as many elements. y may be x.
void scale(const TensorView& x, float factor, const TensorView& y);

}  // namespace tessera::kernels
