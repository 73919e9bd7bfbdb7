// What one-pass optimizers do with a flat range of weights; base/optimizer_kind.h has the formulas.
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

#include "base/optimizer_kind.h"
#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

// What stays over a run.
struct UpdateConstants {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  double rate_multiplier = 1;
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

struct UpdateArgs {
  OptimizerKind rule = OptimizerKind::kAdamW;  // of kOnePassOptimizers
  Update update;
  UpdateConstants constants;
  UpdateNumbers numbers;
};
void launch(Cpu, const Launch&, const UpdateArgs&);
void launch(Gpu, const Launch&, const UpdateArgs&);

}  // namespace tessera::kernels
