// What the vector code that draws masks shares.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/philox.h"
#include "kernels/dropout.h"

namespace tessera::kernels {

constexpr int64_t kPhiloxBlocks = 16;  // drawn at a time
constexpr int64_t kPhiloxWords = 4 * kPhiloxBlocks;

// uniform(word) >= p exactly if (word >> 8) >= p * 2^24, rounded up.
inline uint32_t dropout_threshold(float probability) {
  return static_cast<uint32_t>(std::ceil(static_cast<double>(probability) * 0x1p24));
}

}  // namespace tessera::kernels
