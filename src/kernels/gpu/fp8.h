// FP8 operands of GEMMs (kernels/fp8.h) for tensor cores: codes with one byte per element, and the
// power of two by which they are multiplied.
#pragma once

#include "kernels/gpu/operand.h"
#include "kernels/matmul.h"
#include "tensor/gpu.h"

namespace tessera::kernels::gpu {

constexpr int64_t kFp8Partials = 256;  // maxima of parts of an operand

struct Fp8Work {
  Numbers x;  // [rows, columns]
  int64_t rows = 0, columns = 0;
  bool vector = false;           // all groups of eight are aligned and full
  bool transposed = false;       // codes are [columns, rows]
  int64_t parts = 1;             // number of partial maxima, at most kFp8Partials
  uint32_t* partials = nullptr;  // [parts]  scratch
  uint8_t* codes = nullptr;      // written
  float* factor = nullptr;       // written: 2^-k, or NaN if x has a non-finite element
  int mantissa = 0, least_exponent = 0, bias = 0;  // Fp8Format of kernels/fp8.h
  float most = 0;
};
void launch_fp8(const Fp8Work& a, Stream s);

// CHECKs the requirements of cuBLASLt for an FP8 GEMM: extents that are multiples of 16, at most
// one E5M2 operand, and dense rows. The compiler creates only such GEMMs.
void check_fp8_product(const MatmulShape& shape);

// The operands of an FP8 GEMM. Tensor cores need k contiguous in both, A as [m, k] and
// B as [n, k]; other memory layouts are transposed during quantization.
class Fp8Operands {
 public:
  // `shape` must have fp8_a and fp8_b.
  explicit Fp8Operands(const MatmulShape& shape) : shape_(shape) {}

  int64_t bytes() const;  // size of the workspace, a multiple of 256

  struct Codes {
    const uint8_t *a = nullptr, *b = nullptr;              // [m, k], [n, k]
    const float *factor_a = nullptr, *factor_b = nullptr;  // factors of the codes
  };
  Codes write(Stream s, const void* a, const void* b, void* workspace) const;

 private:
  MatmulShape shape_;
};

}  // namespace tessera::kernels::gpu
