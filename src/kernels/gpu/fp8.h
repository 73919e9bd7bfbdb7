// Operands of products in eight bits (kernels/fp8.h), as tensor cores take them: codes, a byte an
// element, and the power of two that they are times.
#pragma once

#include "kernels/gpu/operand.h"
#include "tensor/stream.h"

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

}  // namespace tessera::kernels::gpu
