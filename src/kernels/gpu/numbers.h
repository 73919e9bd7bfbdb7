// Reads and writes numbers in device memory: f32, bf16 or f16, widened to f32 when read and rounded
// to nearest when written. The type is a value, not a template parameter: a uniform branch costs
// nothing compared with the memory access, and a kernel is compiled once.
#pragma once

#include <gpu_runtime.h>

#include "kernels/gpu/operand.h"

namespace tessera::kernels::gpu {

// Returns the f32 value of the lower 16 bits.
__device__ inline float widen(uint32_t bits, DType type) {
  return type == DType::kBF16 ? __uint_as_float(bits << 16)
                              : float_from_f16(static_cast<uint16_t>(bits));
}
__device__ inline uint16_t narrow(float x, DType type) {
  return type == DType::kBF16 ? bf16_from_float(x) : f16_from_float(x);
}

__device__ inline float read(const Numbers& x, int64_t i) {
  if (x.type == DType::kF32) return x.f32()[i];
  return widen(x.halves()[i], x.type);
}
__device__ inline void write(const Numbers& y, int64_t i, float x) {
  if (y.type == DType::kF32)
    y.f32()[i] = x;
  else
    y.halves()[i] = narrow(x, y.type);
}

// Reads elements i … i+7, of which the first n exist. `vector` allows a 16-byte access to a full
// group: the data is aligned to 16 bytes and i is a multiple of 8.
__device__ inline void read_group(const Numbers& x, int64_t i, int n, bool vector,
                                  float (&to)[kGroup]) {
  if (!vector || n < kGroup) {
    for (int k = 0; k < kGroup; ++k) to[k] = k < n ? read(x, i + k) : 0.0f;
    return;
  }
  if (x.type == DType::kF32) {
    const auto* p = reinterpret_cast<const float4*>(x.f32() + i);
    const float4 a = p[0], b = p[1];
    to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w;
    to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
    return;
  }
  const uint4 a = *reinterpret_cast<const uint4*>(x.halves() + i);
  const uint32_t words[4] = {a.x, a.y, a.z, a.w};
  for (int k = 0; k < 4; ++k) {
    to[2 * k] = widen(words[k] & 0xffffu, x.type);
    to[2 * k + 1] = widen(words[k] >> 16, x.type);
  }
}

__device__ inline void write_group(const Numbers& y, int64_t i, int n, bool vector,
                                   const float (&from)[kGroup]) {
  if (!vector || n < kGroup) {
    for (int k = 0; k < n && k < kGroup; ++k) write(y, i + k, from[k]);
    return;
  }
  if (y.type == DType::kF32) {
    auto* p = reinterpret_cast<float4*>(y.f32() + i);
    p[0] = make_float4(from[0], from[1], from[2], from[3]);
    p[1] = make_float4(from[4], from[5], from[6], from[7]);
    return;
  }
  uint32_t words[4];
  for (int k = 0; k < 4; ++k) {
    const uint32_t low = narrow(from[2 * k], y.type), high = narrow(from[2 * k + 1], y.type);
    words[k] = low | high << 16;
  }
  *reinterpret_cast<uint4*>(y.halves() + i) = make_uint4(words[0], words[1], words[2], words[3]);
}

// Returns the f32 nearest to x.
__device__ inline float rounded(double x) { return static_cast<float>(x); }

// Returns x after rounding it to that type.
__device__ inline float as_stored(float x, DType type) {
  return type == DType::kF32 ? x : widen(narrow(x, type), type);
}

// Returns x rounded stochastically to bf16 with random bits r (kernels/update.h); other types are
// not changed.
__device__ inline float stochastic(float x, uint32_t r, DType type) {
  if (type != DType::kBF16 || isnan(x)) return x;
  return __uint_as_float((__float_as_uint(x) + r) & 0xffff0000u);
}

}  // namespace tessera::kernels::gpu
