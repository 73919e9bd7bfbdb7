// The table of GPU kernels, and the check of a launch. This file is compiled by the host compiler,
// because nvcc cannot compile the format strings of fmt.
#include <gpu_runtime.h>

#include "base/error.h"
#include "kernels/kernels.h"

namespace tessera::kernels::gpu {

void check_launch(gpuError_t code, const char* kernel) {
  if (code == gpuSuccess) return;
  gpuGetLastError();
  throw Error("the device could not start {}: {} ({}).", kernel, gpuGetErrorString(code),
              gpuGetErrorName(code));
}

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

const KernelTable& gpu_kernels() {
  static constexpr KernelTable kTable = table_of<Gpu>(AllArgs());
  return kTable;
}

}  // namespace tessera::kernels
