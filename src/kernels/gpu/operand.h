// Operands of kernels as plain data.
#pragma once

#include <gpu_runtime.h>

#include <cstdint>

#include "base/dtype.h"

namespace tessera::kernels::gpu {

constexpr int kGroup = 8;  // elements that a thread moves at once: 16 bytes of a half

struct Numbers {
  void* data = nullptr;
  DType type = DType::kF32;
};

}  // namespace tessera::kernels::gpu
