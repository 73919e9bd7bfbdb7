// What the vector code that draws weights is asked for.
#pragma once

#include "kernels/cpu/operand.h"
#include "kernels/cpu/philox_words.h"

namespace tessera::kernels {

struct NormalRange {
  Sink to;
  int64_t first = 0, last = 0;  // global elements
  uint64_t key = 0;
  float mean = 0, deviation = 1;
};

}  // namespace tessera::kernels
