// What optimizers do with a flat range of weights, in one sweep. In all of them g = scale *
// gradient and, where decay applies to a range, w *= 1 - learning_rate * weight_decay comes first.
//
//   adamw   m += (1 - beta1) * (g - m),   v = beta2 * v + (1 - beta2) * g * g
//           w -= learning_rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
//           (Loshchilov & Hutter 2019, as PyTorch has it)
//   lion    w -= learning_rate * sign(beta1 * m + (1 - beta1) * g)
//           m = beta2 * m + (1 - beta2) * g                              (Chen et al. 2023)
//   sgd     g += weight_decay * w in place of the decay above,  m = beta1 * m + g
//           w -= learning_rate * m, or * g without m                     (PyTorch's, no dampening)
//
// All is computed in f32. What is stored in bf16 is rounded to nearest, ties to even, or
// stochastically: x goes to one of its two neighbours with the probability that makes the mean x,
//   bits of bf16 = (bits of f32 + r) >> 16,   r uniform in [0, 2^16)
// where the word of Philox (base/philox.h) for r of global element e of a weight is word e % 4 of
// block (e / 4, lane t) of Philox{key}: its upper half for w, its lower half for m, and the two
// xor-ed for v, so any two of them are independent. The result depends on nothing but key, step,
// element and x. What is not finite stays so.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

// What stays over a run.
struct UpdateConstants {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
};
// What changes from step to step, in memory of the device that computes.
struct UpdateNumbers {
  const double* learning_rate = nullptr;
  const double* step = nullptr;   // t, from 1
  const double* scale = nullptr;  // of the gradient: clip factor / tokens
  const double* skip = nullptr;   // unless 0, nothing is written
};

// Elements [begin, end) are updated; weight decay applies to some of them. For stochastic rounding:
// the key of their weight, and which of its elements `begin` is.
struct UpdateRange {
  int64_t begin = 0, end = 0;
  bool decay = true;
  uint64_t key = 0;
  int64_t element = 0;
};

// Ranges come by rising begin, apart; elements outside of them are left alone.
struct Update {
  TensorView weights = {};      // [n] f32 or bf16  updated (the masters, where there are some)
  TensorView m = {}, v = {};    // [n] f32 or bf16  updated; none where the optimizer has none
  TensorView gradient = {};     // [n] f32, bf16 or f16
  TensorView weights_low = {};  // [n] bf16 or f16  written: the weights, to nearest; or none
  std::span<const UpdateRange> ranges = {};
  bool stochastic = false;
};

enum class UpdateRule : uint8_t { kAdamW, kLion, kSgd };

struct UpdateArgs {
  UpdateRule rule = UpdateRule::kAdamW;
  Update update;
  UpdateConstants constants;
  UpdateNumbers numbers;
};
void launch(Cpu, const Launch&, const UpdateArgs&);
void launch(Gpu, const Launch&, const UpdateArgs&);

}  // namespace tessera::kernels
