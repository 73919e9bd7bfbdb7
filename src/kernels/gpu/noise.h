// Random operands for measurements. With zeros, a device needs less power and is faster than with
// the numbers of a model (13 % on an H200).
#pragma once

#include <cstdint>

#include "tensor/gpu.h"

namespace tessera::kernels::gpu {

// Generates approximately normal numbers of unit variance as sums of four bytes. The sequence is
// always the same.
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
