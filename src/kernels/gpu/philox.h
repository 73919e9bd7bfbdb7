// The random numbers of base/philox.h on the device.
#pragma once

#include <gpu_runtime.h>

#include <cstdint>

#include "base/philox.h"

namespace tessera::kernels::gpu {

// The key of a dropout mask: see Dropout in kernels/dropout.h.
struct MaskKey {
  uint64_t key = 0;
  const double *seed = nullptr, *step = nullptr;
  int64_t layer = 0;
};

// Returns the Philox words of adjacent elements: word e % 4 of block e / 4. A block is computed
// once for four elements.
class PhiloxWords {
 public:
  __device__ PhiloxWords(uint64_t key, uint64_t lane) : key_(key), lane_(lane) {}
  __device__ uint32_t of(int64_t element) {
    if (element / 4 != index_) {
      index_ = element / 4;
      block_ = Philox{key_}.block(index_, lane_);
    }
    // Selects without indexing, so the block stays in registers.
    const int64_t e = element % 4;
    return e < 2 ? (e == 0 ? block_[0] : block_[1]) : (e == 2 ? block_[2] : block_[3]);
  }

 private:
  uint64_t key_, lane_;
  int64_t index_ = -1;
  PhiloxBlock block_ = {};
};

__device__ inline bool is_dropped(uint32_t word, float probability) {
  return Philox::uniform(word) < probability;
}

__device__ inline uint64_t value_of(const MaskKey& m) {
  if (m.seed == nullptr) return m.key;
  const uint64_t own = m.key ^ (static_cast<uint64_t>(*m.seed) * 0x9E3779B97F4A7C15ull);
  const uint64_t layer = m.layer + 1, index = (static_cast<uint64_t>(*m.step) << 16) | layer;
  return Philox{own}.word(index);
}

}  // namespace tessera::kernels::gpu
