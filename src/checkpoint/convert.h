// Element types of files into one another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace tessera {

// IEEE 754 binary16. Rounds to nearest, ties to even; overflow becomes infinity, NaN stays NaN.
uint16_t f16_from_float(float x);
float float_from_f16(uint16_t bits);

bool is_float(DType t);  // f32, bf16, f16, f64: these convert into one another

// Converts n elements. Widening is exact; narrowing rounds to nearest even (f64 narrows to 16 bits
// by way of f32). Equal types are copied. Neither side need be aligned; they must not overlap.
// CHECKs that the types are equal or both floating.
void convert(const std::byte* from, DType from_type, std::byte* to, DType to_type, int64_t n);

}  // namespace tessera
