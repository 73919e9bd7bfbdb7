#include "tensor/cuda/mark.h"

#include <cuda_runtime.h>

namespace tessera {
namespace {

struct Mark {
  volatile int64_t* to;
  int64_t number;
};

__global__ void mark_kernel(const Mark m) { *m.to = m.number; }

}  // namespace

int launch_mark(Stream s, int64_t* to, int64_t number) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  config.stream = static_cast<cudaStream_t>(s.handle);
  return cudaLaunchKernelEx(&config, mark_kernel, Mark{to, number});
}

}  // namespace tessera
