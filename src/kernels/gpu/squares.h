// Sums of doubles over blocks, in a fixed order.
#pragma once

#include <cstdint>

#include "tensor/stream.h"

namespace tessera::kernels::gpu {

constexpr int64_t kSquaresOfBlock = 16 * 1024;  // elements of a partial sum
int64_t squares_partials(int64_t n);

// *sum += partials[0] + … in a fixed order.
struct JoinWork {
  const double* partials = nullptr;
  int64_t count = 0;
  double* sum = nullptr;
};
void launch_join(const JoinWork& a, Stream s);

}  // namespace tessera::kernels::gpu
