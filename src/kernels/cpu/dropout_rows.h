// What the vector code of dropout works on.
#pragma once

#include "kernels/cpu/operand.h"
#include "kernels/cpu/philox_words.h"

namespace tessera::kernels {

struct DropoutRows {
  Source x;
  Sink y;
  const int64_t* samples;
  int64_t rows, d;  // rows of a sample
  DropoutWindow window;
  uint64_t key;
  uint32_t threshold;
  float scale;                  // 1 / (1 - p)
  uint8_t* mask_out = nullptr;  // of all rows, or none
};

}  // namespace tessera::kernels
