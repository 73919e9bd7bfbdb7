// Conversions between f32, bf16 and f16 (round to nearest, ties to even; NaN stays NaN), and
// copies.
#pragma once

#include "tensor/tensor.h"

namespace tessera::kernels {

// y = x in y's dtype; same number of elements; no overlap.
void cast(const TensorView& x, const TensorView& y);

}  // namespace tessera::kernels
