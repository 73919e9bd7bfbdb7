// Moments in 8 bits (base/moment_code.h) in device memory. Eight neighboring threads have the 64
// moments of a block, eight each. Include in one file: the tables are its own copy.
#pragma once

#include <gpu_runtime.h>

#include "base/moment_code.h"
#include "kernels/gpu/numbers.h"

namespace tessera::kernels::gpu {

constexpr int kThreadsOfBlock = kMomentBlock / kGroup;
static_assert(kThreadsOfBlock == 8);

struct CodedMoments {
  uint8_t* codes = nullptr;
  float* scales = nullptr;
};

__device__ const MomentTable kSignedTable = make_moment_table(MomentCode::kSigned);
__device__ const MomentTable kUnsignedTable = make_moment_table(MomentCode::kUnsigned);

// Reads moments i … i+7, of which the first n exist; i is a multiple of 8. `values` are those of
// the codes.
__device__ inline void read_moments(const CodedMoments& a, const float* values, int64_t i, int n,
                                    float (&to)[kGroup]) {
  uint32_t words[2] = {0, 0};
  if (n == kGroup) {
    const uint64_t both = *reinterpret_cast<const uint64_t*>(a.codes + i);
    words[0] = static_cast<uint32_t>(both), words[1] = static_cast<uint32_t>(both >> 32);
  } else {
    for (int k = 0; k < kGroup; ++k)
      if (k < n) words[k / 4] |= uint32_t{a.codes[i + k]} << k % 4 * 8;
  }
  const float scale = n > 0 ? a.scales[i / kMomentBlock] : 0.0f;
  for (int k = 0; k < kGroup; ++k)
    to[k] = k < n ? values[words[k / 4] >> k % 4 * 8 & 255u] * scale : 0.0f;
}

// Returns the number of a magnitude.
__device__ inline int magnitude_number(const MomentTable& t, float a) {
  float slope = 0, shift = 0, last = 0;
  for (const MomentStep& s : t.steps) {
    const bool from = a >= s.from;
    slope = from ? s.slope : slope;
    shift = from ? s.shift : shift;
    last = from ? s.last : last;
  }
  return static_cast<int>(fminf(fmaf(a, slope, shift), last));
}

__device__ inline uint32_t signed_code(float ratio) {
  const int n = magnitude_number(kSignedTable, fabsf(ratio));
  if (!(ratio < 0)) return static_cast<uint32_t>(n) & 255u;
  return static_cast<uint32_t>(-(n < 127 ? n : 127)) & 255u;  // there is no value -1
}
__device__ inline uint32_t unsigned_code(float ratio) {
  const int n = magnitude_number(kUnsignedTable, ratio);
  return ratio > 0 && n < 1 ? 1u : static_cast<uint32_t>(n) & 255u;
}

// Quantizes moments i … i+7, of which the first n exist. All threads of a warp call it together.
template <bool kSigned>
__device__ void write_moments(const CodedMoments& a, int64_t i, int n, const float (&x)[kGroup]) {
  float high = 0, low = 0;
  for (int k = 0; k < kGroup; ++k) {
    const float v = k < n ? x[k] : 0.0f;
    high = fmaxf(high, v);
    low = fminf(low, v);
  }
  for (int o = kThreadsOfBlock / 2; o > 0; o /= 2) {
    high = fmaxf(high, shuffle_xor(high, o));
    low = fminf(low, shuffle_xor(low, o));
  }
  if (n == 0) return;
  const float most = high >= -low ? high : low;
  const bool zero = most < kSmallestMomentScale && most > -kSmallestMomentScale;
  if (i % kMomentBlock == 0) a.scales[i / kMomentBlock] = zero ? 0.0f : most;
  uint32_t words[2] = {0, 0};
  for (int k = 0; k < kGroup; ++k) {
    const float ratio = x[k] / most;
    const uint32_t code = zero ? 0u : kSigned ? signed_code(ratio) : unsigned_code(ratio);
    words[k / 4] |= code << k % 4 * 8;
  }
  if (n == kGroup) {
    *reinterpret_cast<uint64_t*>(a.codes + i) = words[0] | uint64_t{words[1]} << 32;
    return;
  }
  for (int k = 0; k < kGroup; ++k)
    if (k < n) a.codes[i + k] = static_cast<uint8_t>(words[k / 4] >> k % 4 * 8);
}

}  // namespace tessera::kernels::gpu
