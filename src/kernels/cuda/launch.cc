// What launch.h leaves to the host's compiler: nvcc cannot compile the format strings of fmt.
#include <cuda_runtime.h>

#include "base/error.h"

namespace tessera::kernels::cuda {

void check_launch(cudaError_t code, const char* kernel) {
  if (code == cudaSuccess) return;
  cudaGetLastError();
  throw Error("the device refused to start {}: {} ({}).", kernel, cudaGetErrorString(code),
              cudaGetErrorName(code));
}

}  // namespace tessera::kernels::cuda
