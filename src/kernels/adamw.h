// AdamW (Loshchilov & Hutter 2019) over a flat range, in one sweep, with PyTorch's formula:
//   g = scale * gradient
//   w *= 1 - learning_rate * weight_decay                                (where decay applies)
//   m += (1 - beta1) * (g - m),   v = beta2 * v + (1 - beta2) * g * g
//   w -= learning_rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
#pragma once

#include <cstdint>
#include <span>

#include "tensor/tensor.h"

namespace tessera::kernels {

struct AdamWStep {
  double learning_rate = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  int64_t step = 1;   // t, from 1
  double scale = 1;   // of the gradient: clip factor / tokens
  bool skip = false;  // nothing is written
};

// Elements [begin, end) are updated; weight decay applies to some of them.
struct UpdateRange {
  int64_t begin = 0, end = 0;
  bool decay = true;
};

// Ranges must not overlap; elements outside of all are left alone.
struct AdamW {
  TensorView weights;      // [n] f32  updated (the master weights)
  TensorView m, v;         // [n] f32  updated
  TensorView gradient;     // [n] f32 or bf16
  TensorView weights_low;  // [n] bf16  written: the weights, rounded; no data: none
  std::span<const UpdateRange> ranges;
};
void adamw(const AdamW& a, const AdamWStep& step);

}  // namespace tessera::kernels
