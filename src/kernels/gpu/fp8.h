// Operands of products in eight bits (kernels/fp8.h), as tensor cores take them: codes, a byte an
// element, and the power of two that they are times.
#pragma once

#include "kernels/gpu/operand.h"
#include "kernels/matmul.h"
#include "tensor/gpu.h"

namespace tessera::kernels::gpu {

constexpr int64_t kFp8Partials = 256;  // maxima of parts of an operand

struct Fp8Work {
  Numbers x;  // [rows, columns]
  int64_t rows = 0, columns = 0;
  bool vector = false;           // groups of eight are aligned and whole
  bool transposed = false;       // codes are [columns, rows]
  int64_t parts = 1;             // of the operand, each with a maximum: at most kFp8Partials
  uint32_t* partials = nullptr;  // one of each part, scratch
  uint8_t* codes = nullptr;      // written
  float* factor = nullptr;       // written: 2^-k, or NaN where x holds what is not finite
  int mantissa = 0, least_exponent = 0, bias = 0;  // of the format: kernels/fp8.h
  float most = 0;
};
void launch_fp8(const Fp8Work& a, Stream s);

// The requirements of cuBLASLt for an FP8 GEMM: extents that are multiples of 16, one operand or
// none of E5M2, and dense rows. CHECKs it: the compiler makes no other.
void check_fp8_product(const MatmulShape& shape);

// The operands of an FP8 GEMM. Tensor cores need k contiguous in both, A as [m, k] and
// B as [n, k]; other layouts are transposed while they are rounded.
class Fp8Operands {
 public:
  // For a shape with fp8_a and fp8_b.
  explicit Fp8Operands(const MatmulShape& shape) : shape_(shape) {}

  int64_t bytes() const;  // size of the workspace, a multiple of 256

  struct Codes {
    const uint8_t *a = nullptr, *b = nullptr;              // [m, k], [n, k]
    const float *factor_a = nullptr, *factor_b = nullptr;  // times them
  };
  Codes write(Stream s, const void* a, const void* b, void* workspace) const;

 private:
  MatmulShape shape_;
};

}  // namespace tessera::kernels::gpu
