// Results of the GPU's runtime as Errors. For files that are built with the toolkit, also by nvcc.
#pragma once

#include <gpu_runtime.h>

#include "tensor/gpu.h"

namespace tessera {

// Throws Error unless the call succeeded. Clears the runtime's last error too: a library that asks
// for it must not find this one.
void check_gpu(gpuError_t code, const char* call);

inline gpuStream_t native(Stream s) { return static_cast<gpuStream_t>(s.handle); }

}  // namespace tessera
