// comm/reduce.h on a GPU: the terms are the own one and what came from the others, rank by
// rank, `stride` elements apart in the staging memory.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "tensor/stream.h"

namespace tessera {

struct DeviceReduce {
  const void *own = nullptr, *staged = nullptr;
  int64_t stride = 0, rank = 0, size = 1;
  int64_t n = 0;
  void* out = nullptr;
  DType in = DType::kF32, out_type = DType::kF32;
  bool maximum = false, add = false;
};
// Returns the result of the GPU's runtime (gpuError_t).
int launch_reduce(const DeviceReduce& r, Stream s);

}  // namespace tessera
