// What launch.h leaves to the host's compiler: nvcc cannot compile the format strings of fmt.
#include <gpu_runtime.h>

#include "base/error.h"

namespace tessera::kernels::gpu {

void check_launch(gpuError_t code, const char* kernel) {
  if (code == gpuSuccess) return;
  gpuGetLastError();
  throw Error("the device refused to start {}: {} ({}).", kernel, gpuGetErrorString(code),
              gpuGetErrorName(code));
}

}  // namespace tessera::kernels::gpu
