// What the vector code of AdamW works on.
#pragma once

#include "kernels/cpu/operand.h"

namespace tessera::kernels {

struct AdamWRange {
  float *weights, *m, *v;
  Source gradient;
  uint16_t* weights_low;  // or none
  float scale, one_minus_beta1, beta2, one_minus_beta2;
  float root_bias_correction;  // sqrt(1 - beta2^t)
  float epsilon, step_size;    // learning rate / (1 - beta1^t)
};

}  // namespace tessera::kernels
