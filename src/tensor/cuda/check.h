// Answers of the CUDA runtime as Errors. For files that are built with the toolkit.
#pragma once

#include <cuda_runtime.h>

#include "base/error.h"

namespace tessera {

// Clears the runtime's last error too: a library that asks for it must not find this one.
inline void check_cuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  cudaGetLastError();
  throw Error("{} failed: {} ({}). See what else uses the device with nvidia-smi.", call,
              cudaGetErrorString(code), cudaGetErrorName(code));
}

inline cudaStream_t native(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace tessera
