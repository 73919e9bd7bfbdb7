// In place of src/kernels/gpu/tensor_cores.h, whose manual holds: the same in plain loops.
#pragma once

#include <array>

#include "base/dtype.h"
#include "gpu_runtime.h"

namespace cuda_emulator {

struct Lane {
  uint32_t a[4], b[2];
  const uint16_t* row;
};
inline std::array<std::array<Lane, 32>, 32> lanes;  // of each warp of the block

inline std::array<Lane, 32>& lanes_of_warp() { return lanes[threadIdx.x / 32]; }

// The upper or lower half of a pair.
inline uint16_t half_of(uint32_t pair, int upper) {
  return static_cast<uint16_t>(upper ? pair >> 16 : pair);
}

}  // namespace cuda_emulator

namespace tessera::kernels::gpu {

template <DType kType>
float number_of(uint16_t bits) {
  if constexpr (kType == DType::kBF16) {
    BF16 x;
    x.bits = bits;
    return static_cast<float>(x);
  } else {
    F16 x;
    x.bits = bits;
    return static_cast<float>(x);
  }
}

template <DType kType>
void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  using namespace cuda_emulator;
  const auto& lanes = lanes_of_warp();
  lanes_of_warp()[static_cast<size_t>(own_lane())] = {{a[0], a[1], a[2], a[3]}, {b0, b1}, nullptr};
  warp_barrier();
  for (int e = 0; e < 4; ++e) {
    const int row = own_lane() / 4 + 8 * (e / 2), column = 2 * (own_lane() % 4) + e % 2;
    for (int k = 0; k < 16; ++k) {
      const Lane& x = lanes[static_cast<size_t>(row % 8 * 4 + k % 8 / 2)];
      const Lane& y = lanes[static_cast<size_t>(column * 4 + k % 8 / 2)];
      c[e] += number_of<kType>(half_of(x.a[row / 8 + 2 * (k / 8)], k % 2)) *
              number_of<kType>(half_of(y.b[k / 8], k % 2));
    }
  }
  warp_barrier();
}

inline void load_b_of_rows(uint32_t (&b)[4], const uint16_t* row) {
  using namespace cuda_emulator;
  const auto& lanes = lanes_of_warp();
  lanes_of_warp()[static_cast<size_t>(own_lane())].row = row;
  warp_barrier();
  for (int m = 0; m < 4; ++m) {  // rows 8 (m mod 2) and on, of the columns 8 (m / 2) and on
    const int column = own_lane() / 4, below = 2 * (own_lane() % 4);
    const auto at = [&](int r) {
      return lanes[static_cast<size_t>(8 * m + below + r)].row[column];
    };
    b[m] = static_cast<uint32_t>(at(0)) | static_cast<uint32_t>(at(1)) << 16;
  }
  warp_barrier();
}

}  // namespace tessera::kernels::gpu
