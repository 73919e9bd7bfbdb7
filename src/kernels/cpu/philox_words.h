// Philox words in bulk, and the threshold of dropout. Plain loops: the compiler vectorises them.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/philox.h"
#include "kernels/dropout.h"

namespace tessera::kernels {

// uniform(word) >= p exactly if (word >> 8) >= p * 2^24, rounded up.
inline uint32_t dropout_threshold(float probability) {
  return static_cast<uint32_t>(std::ceil(static_cast<double>(probability) * 0x1p24));
}

// words[4 i + k] = word k of block first + i of (key, lane), for i in [0, kPhiloxBlocks).
constexpr int64_t kPhiloxBlocks = 16;
inline __attribute__((always_inline)) void philox_words(uint64_t key, uint64_t first, uint64_t lane,
                                                        uint32_t* words) {
  constexpr int64_t n = kPhiloxBlocks;
  uint32_t c0[n], c1[n], c2[n], c3[n];
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t index = first + static_cast<uint64_t>(i);
    c0[i] = static_cast<uint32_t>(index);
    c1[i] = static_cast<uint32_t>(index >> 32);
    c2[i] = static_cast<uint32_t>(lane);
    c3[i] = static_cast<uint32_t>(lane >> 32);
  }
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t a = uint64_t{0xD2511F53u} * c0[i], b = uint64_t{0xCD9E8D57u} * c2[i];
      c0[i] = static_cast<uint32_t>(b >> 32) ^ c1[i] ^ k0;
      c2[i] = static_cast<uint32_t>(a >> 32) ^ c3[i] ^ k1;
      c1[i] = static_cast<uint32_t>(b);
      c3[i] = static_cast<uint32_t>(a);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int64_t i = 0; i < n; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

}  // namespace tessera::kernels
