// A kernel of one thread that writes a number to pinned host memory. The number is an argument, so
// no source buffer must stay unchanged until the stream reaches it.
#include "tensor/gpu/mark.h"

#include <gpu_runtime.h>

namespace tessera {
namespace {

struct Mark {
  // volatile: the store must reach the host while the stream continues.
  volatile int64_t* to;
  int64_t number;
};

__global__ void mark_kernel(const Mark m) { *m.to = m.number; }

}  // namespace

int launch_mark(Stream s, int64_t* to, int64_t number) {
  gpuLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  config.stream = static_cast<gpuStream_t>(s.handle);
  return gpuLaunchKernelEx(&config, mark_kernel, Mark{to, number});
}

}  // namespace tessera
