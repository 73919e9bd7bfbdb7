// What sums of rows and norms share.
#pragma once

#include "kernels/gpu/views.h"

namespace tessera::kernels::gpu {

constexpr int kMostTerms = 4;

// out = sum of the terms and of the biases.
struct SumRows {
  Groups groups;
  int terms = 0, biases = 0;
  Numbers term[kMostTerms], bias[kMostTerms];
  Numbers out;
};
// Groups are by 16 bytes where all operands allow it.
SumRows sum_rows(Views terms, Views biases, View out);

}  // namespace tessera::kernels::gpu
