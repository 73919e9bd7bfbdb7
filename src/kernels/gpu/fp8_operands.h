// Both operands of a product in eight bits. Tensor cores want k contiguous in both, A as [m, k] and
// B as [n, k]; where they do not stand so, they are turned round as they are rounded.
#pragma once

#include "kernels/matmul.h"
#include "tensor/stream.h"

namespace tessera::kernels::gpu {

// What cuBLASLt asks of a product in eight bits: extents that are multiples of 16, one operand or
// none of E5M2, and dense rows. CHECKs it: the compiler makes no other.
void check_fp8_product(const MatmulShape& shape);

class Fp8Operands {
 public:
  // Of a shape with fp8_a and fp8_b.
  explicit Fp8Operands(const MatmulShape& shape) : shape_(shape) {}

  int64_t bytes() const;  // of the workspace, a multiple of 256

  struct Codes {
    const uint8_t *a = nullptr, *b = nullptr;              // [m, k], [n, k]
    const float *factor_a = nullptr, *factor_b = nullptr;  // times them
  };
  Codes write(Stream s, const void* a, const void* b, void* workspace) const;

 private:
  MatmulShape shape_;
};

}  // namespace tessera::kernels::gpu
