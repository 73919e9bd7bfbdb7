// The table of a GPU's kernels, and the check of a launch, which is left to the host's compiler:
// nvcc cannot compile the format strings of fmt.
#include <gpu_runtime.h>

#include "base/error.h"
#include "kernels/kernels.h"

namespace tessera::kernels::gpu {

void check_launch(gpuError_t code, const char* kernel) {
  if (code == gpuSuccess) return;
  gpuGetLastError();
  throw Error("the device refused to start {}: {} ({}).", kernel, gpuGetErrorString(code),
              gpuGetErrorName(code));
}

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

const KernelTable& gpu_kernels() {
  static constexpr KernelTable kTable = table_of<Gpu>(AllArgs());
  return kTable;
}

}  // namespace tessera::kernels
