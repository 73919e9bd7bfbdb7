// Operands of matrix products in eight bits (OCP FP8; Micikevicius et al. 2022), scaled a tensor:
//
//   x ≈ 2^-k q,  q of the format's numbers, k the largest with 2^k max|x| within them
//
// A power of two costs at most one bit of range and makes the scaling exact: where no processor
// multiplies eight bits, rounding x to 2^-k q and an ordinary product give the same as one that
// does, but for the order of sums. q is rounded to nearest, ties to even. Where x holds anything
// that is not finite, all of it becomes NaN: nothing is hidden by saturation.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace tessera::kernels {

enum class Fp8 : uint8_t { kNone, kE4M3, kE5M2 };

struct Fp8Format {
  int mantissa = 0;        // bits
  int least_exponent = 0;  // of a normal number: below it steps are as wide as there
  float most = 0;          // the largest number
  int bias = 0;            // of the exponent in a code
};
constexpr Fp8Format format_of(Fp8 f) {
  return f == Fp8::kE5M2 ? Fp8Format{2, -14, 57344.0f, 15} : Fp8Format{3, -6, 448.0f, 7};
}

// The largest k with 2^k amax ≤ most; 0 for amax = 0. REQUIRES: amax is finite.
int fp8_shift(float amax, Fp8 f);
// The format's number nearest to x, at most its largest.
float nearest_fp8(float x, Fp8 f);

// y = x rounded so, in x's own type (f32, bf16 or f16), which holds all of these numbers. Maxima
// and roundings do not depend on the number of threads.
void round_to_fp8(const void* x, DType type, int64_t n, Fp8 f, void* y, int threads);

}  // namespace tessera::kernels
