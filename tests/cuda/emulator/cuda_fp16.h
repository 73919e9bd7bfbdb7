// See cuda_runtime.h beside this file.
#pragma once

#include "base/dtype.h"

struct __half {
  uint16_t bits;
};
inline __half __float2half_rn(float x) { return {tessera::F16(x).bits}; }
inline uint16_t __half_as_ushort(__half x) { return x.bits; }
inline __half __ushort_as_half(uint16_t bits) { return {bits}; }
inline float __half2float(__half x) {
  tessera::F16 y;
  y.bits = x.bits;
  return static_cast<float>(y);
}
