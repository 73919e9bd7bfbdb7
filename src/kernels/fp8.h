// Quantizes GEMM operands to FP8 (OCP FP8; Micikevicius et al. 2022) with one scale per tensor:
//
//   x ≈ 2^-k q,  q a number of the format, k the largest integer with 2^k max|x| in its range
//
// A power of two costs at most one bit of range and makes the scaling exact. So on a processor
// without FP8, rounding x to 2^-k q and an ordinary GEMM give the same result as an FP8 GEMM, up to
// the order of sums. q is rounded to nearest, ties to even. If any element of x is not finite, all
// elements become NaN, so overflow is not hidden by saturation.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace tessera::kernels {

enum class Fp8 : uint8_t { kNone, kE4M3, kE5M2 };

struct Fp8Format {
  int mantissa = 0;        // bits
  int least_exponent = 0;  // smallest exponent of normal numbers; subnormals have the same spacing
  float most = 0;          // the largest number
  int bias = 0;            // exponent bias of a code
};
constexpr Fp8Format format_of(Fp8 f) {
  return f == Fp8::kE5M2 ? Fp8Format{2, -14, 57344.0f, 15} : Fp8Format{3, -6, 448.0f, 7};
}

// Returns the largest k with 2^k amax ≤ most; 0 for amax = 0. REQUIRES: amax is finite.
int fp8_shift(float amax, Fp8 f);
// Returns the number of the format nearest to x; |result| is at most its largest number.
float nearest_fp8(float x, Fp8 f);

// Writes x rounded to 2^-k q to y, in the type of x (f32, bf16 or f16), which can represent all
// these numbers. The result does not depend on the number of threads.
void round_to_fp8(const void* x, DType type, int64_t n, Fp8 f, void* y, int threads);

}  // namespace tessera::kernels
