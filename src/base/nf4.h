// The 4-bit format NormalFloat (NF4) with double quantization, in which QLoRA stores frozen weights
// (Dettmers et al. 2023).
//
// A tensor is divided into blocks of 64 consecutive weights. The largest magnitude of a block is
// its scale, and a weight is stored as the code, 0 to 15, of the value next to weight / scale:
//
//   weight ≈ kNf4Values[code] · scale
//
// Scales are stored in 8 bits. The mean of all scales is subtracted, and the differences are
// divided into blocks of 256, whose largest magnitude is their factor:
//
//   scale ≈ kNf4ScaleMap.values[scale code] · factor + mean
//
// So a weight needs 4 + 8/64 + 32/(64 · 256) = 4.127 bits. Every operation is an f32 operation with
// its own rounding, none is fused, so weights have the same bits on every processor.
#pragma once

#include <cstdint>
#include <span>

#include "base/moment_code.h"

namespace tessera {

constexpr int64_t kNf4Block = 64;             // weights that share a scale
constexpr int64_t kNf4Bytes = kNf4Block / 2;  // two codes per byte, the first in the high half
constexpr int64_t kNf4ScaleBlock = 256;       // scales that share a factor

// The values of the codes: quantiles of the normal distribution, scaled to [-1, 1].
constexpr float kNf4Values[16] = {-1.0f,
                                  -0.6961928009986877f,
                                  -0.5250730514526367f,
                                  -0.39491748809814453f,
                                  -0.28444138169288635f,
                                  -0.18477343022823334f,
                                  -0.09105003625154495f,
                                  0.0f,
                                  0.07958029955625534f,
                                  0.16093020141124725f,
                                  0.24611230194568634f,
                                  0.33791524171829224f,
                                  0.44070982933044434f,
                                  0.5626170039176941f,
                                  0.7229568362236023f,
                                  1.0f};

// The values of scale codes in ascending order: seven decades, of which decade i has the 2^i
// centers of equal parts of [10^(i-7), 10^(i-6)], their negatives, 0 and 1 (Dettmers 2016).
struct Nf4ScaleMap {
  float values[256] = {};
};
constexpr int kNf4ZeroScale = 127;  // the code of 0
constexpr Nf4ScaleMap make_nf4_scale_map() {
  Nf4ScaleMap map;
  double power = 1e6;
  int at = 1;
  for (int parts = 1; parts <= 64; parts *= 2, power /= 10)
    for (int k = 0; k < parts; ++k, ++at) {
      const float value = dynamic_center(parts, k, power);
      map.values[kNf4ZeroScale + at] = value;
      map.values[kNf4ZeroScale - at] = -value;
    }
  map.values[255] = 1;
  return map;
}
constexpr Nf4ScaleMap kNf4ScaleMap = make_nf4_scale_map();

// Returns the number of f32 `levels` of a tensor with that many blocks: the mean of the scales,
// then one factor per 256 scales.
constexpr int64_t nf4_levels(int64_t blocks) {
  return 1 + (blocks + kNf4ScaleBlock - 1) / kNf4ScaleBlock;
}

// Computes the weights [first, first + out.size()) of a whole tensor; both numbers are multiples of
// 64. codes [n/2], scales [n/64], levels [nf4_levels(n/64)]. kernels/nf4.h has the fast version.
void dequantize_nf4(std::span<const uint8_t> codes, std::span<const uint8_t> scales,
                    std::span<const float> levels, int64_t first, std::span<float> out);

}  // namespace tessera
