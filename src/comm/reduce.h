// Sums and maxima in a fixed order, on the CPU and on a GPU.
#pragma once

#include <span>

#include "comm/communicator.h"

namespace tessera::comm {

// out[i] = ((x_0[i] + x_1[i]) + x_2[i]) + … for i < n, where the terms have dtype `in`. bf16 and
// f16 terms are added in f32 and rounded once. `out` has dtype `in` or f32, and may be one of the
// terms. With `add` the result is added to out[i].
struct Reduce {
  std::span<const std::byte* const> terms = {};
  DType in = DType::kF32;
  int64_t n = 0;
  std::byte* out = nullptr;
  DType out_type = DType::kF32;
  Reduction reduction = Reduction::kSum;
  bool add = false;
};
void reduce_in_order(const Reduce& r);

// The same on a GPU, for rank `rank` of `size`. Its own term is `own`. The terms of the other ranks
// are in the staging memory, in the order of ranks, one every `stride` elements.
struct DeviceReduce {
  const void *own = nullptr, *staged = nullptr;
  int64_t stride = 0, rank = 0, size = 1;
  int64_t n = 0;
  void* out = nullptr;
  DType in = DType::kF32, out_type = DType::kF32;
  bool maximum = false, add = false;
};
void launch_reduce(const DeviceReduce& r, Stream s);

}  // namespace tessera::comm
