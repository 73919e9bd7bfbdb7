// What launchers are told: plain data that files for nvcc and files for the host compiler share.
// No word of fmt here: nvcc does not take it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "base/dtype.h"

namespace tessera::kernels::cuda {

constexpr int kGroup = 8;  // elements that a thread moves at once: 16 bytes of a half

struct Numbers {
  void* data = nullptr;
  DType type = DType::kF32;
};

enum class Activation : uint8_t { kSilu, kErf, kTanh };

// Of masks: see Dropout in kernels/dropout.h.
struct MaskKey {
  uint64_t key = 0;
  const double *seed = nullptr, *step = nullptr;
  int64_t layer = 0;
};

}  // namespace tessera::kernels::cuda
