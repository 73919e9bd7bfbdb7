// Random operands for measurements. A device computes on zeros with less power, and so faster, than
// on the numbers of a model (an H200 was seen 13 % faster).
#pragma once

#include <cstdint>

#include "tensor/gpu.h"

namespace tessera::kernels::gpu {

// Nearly normal numbers of unit variance: sums of four bytes. The sequence is always the same.
class Noise {
 public:
  uint32_t bits();
  float operator()();

 private:
  uint64_t state_ = 0x9e3779b97f4a7c15u;
  int left_ = 0;
};

// Fills device memory with random FP8 codes, finite and below 2 in both formats.
void fill_with_codes(Stream s, void* to, int64_t count);

}  // namespace tessera::kernels::gpu
