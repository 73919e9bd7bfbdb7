// Arguments of the vectorized code that generates random numbers: dropout masks and normal weights.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/philox.h"
#include "kernels/cpu/operand.h"
#include "kernels/dropout.h"

namespace tessera::kernels {

constexpr int64_t kPhiloxBlocks = 16;  // generated at a time
constexpr int64_t kPhiloxWords = 4 * kPhiloxBlocks;

// Returns the threshold t with uniform(word) >= p if and only if (word >> 8) >= t: p * 2^24,
// rounded up.
inline uint32_t dropout_threshold(float probability) {
  return static_cast<uint32_t>(std::ceil(probability * 0x1p24));
}

struct DropoutRows {
  Source x;
  Sink y;
  const int64_t* samples;
  int64_t rows, d;  // rows per sample
  DropoutWindow window;
  uint64_t key;
  uint32_t threshold;
  float scale;                  // 1 / (1 - p)
  uint8_t* mask_out = nullptr;  // mask of all rows, or none
};

struct NormalRange {
  Sink to;
  int64_t first = 0, last = 0;  // global elements
  uint64_t key = 0;
  float mean = 0, deviation = 1;
};

}  // namespace tessera::kernels
