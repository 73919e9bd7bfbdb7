#include "tensor/tensor.h"

#include "base/error.h"

namespace tessera {

float* TensorView::f32() const {
  CHECK(dtype == DType::kF32, "a view of {} is read as f32", name_of(dtype));
  return as<float>();
}

BF16* TensorView::bf16() const {
  CHECK(dtype == DType::kBF16, "a view of {} is read as bf16", name_of(dtype));
  return as<BF16>();
}

}  // namespace tessera
