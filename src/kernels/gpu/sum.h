// What sums of rows and norms share.
#pragma once

#include "kernels/gpu/views.h"
#include "kernels/sum.h"

namespace tessera::kernels::gpu {

// out = sum of the terms and of the biases.
struct SumRows {
  Groups groups;
  int terms = 0, biases = 0;
  Numbers term[kMaxTerms], bias[kMaxTerms];
  Numbers out;
};
// Groups are by 16 bytes where all operands allow it.
SumRows sum_rows(const SumArgs& a);

}  // namespace tessera::kernels::gpu
