// A kernel with one thread that writes a number to pinned host memory. The number is an argument of
// the kernel, so there is no source buffer that must stay unchanged until the stream reaches it.
#include "tensor/gpu.h"
#include "tensor/gpu/check.h"

namespace tessera {
namespace {

struct Mark {
  // volatile: the store must reach the host while the stream continues.
  volatile int64_t* to;
  int64_t number;
};

__global__ void mark_kernel(const Mark m) { *m.to = m.number; }

}  // namespace

void write_in_stream(Stream s, int64_t* to, int64_t number) {
  gpuLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  config.stream = native(s);
  check_gpu(gpuLaunchKernelEx(&config, mark_kernel, Mark{to, number}), "writing a number");
}

}  // namespace tessera
