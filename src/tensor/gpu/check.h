// Turns failures of the GPU runtime into Errors. For files that are compiled with the CUDA toolkit,
// including those that nvcc compiles.
#pragma once

#include <gpu_runtime.h>

#include "tensor/gpu.h"

namespace tessera {

// Throws Error unless the call succeeded. Also clears the runtime's last error, so that another
// library does not read this one.
void check_gpu(gpuError_t code, const char* call);

inline gpuStream_t native(Stream s) { return static_cast<gpuStream_t>(s.handle); }

}  // namespace tessera
