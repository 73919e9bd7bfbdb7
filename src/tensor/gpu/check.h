// Results of the GPU's runtime as Errors. For files that are built with the toolkit.
#pragma once

#include <gpu_runtime.h>

#include "base/error.h"

namespace tessera {

// Clears the runtime's last error too: a library that asks for it must not find this one.
inline void check_gpu(gpuError_t code, const char* call) {
  if (code == gpuSuccess) return;
  gpuGetLastError();
  throw Error("{} failed: {} ({}). See what else uses the device with nvidia-smi.", call,
              gpuGetErrorString(code), gpuGetErrorName(code));
}

inline gpuStream_t native(void* stream) { return static_cast<gpuStream_t>(stream); }

}  // namespace tessera
