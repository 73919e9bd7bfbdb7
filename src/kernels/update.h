// The update of flat ranges of weights by one-pass optimizers; base/optimizer_kind.h has the
// formulas. Also the exponential mean of weights.
//
// Arithmetic is in f32. Values that are stored in bf16 are rounded to nearest, ties to even, or
// stochastically: x becomes one of its two neighbors, with probabilities that make the mean x,
//   bits of bf16 = (bits of f32 + r) >> 16,   r uniform in [0, 2^16)
// For global element e of a weight, the random bits are those of Philox (base/philox.h) word e % 4
// of block (e / 4, lane t) of Philox{key}: the upper half for w, the lower half for m, and the xor
// of the two for v, so any two of them are independent. The result depends only on key, step,
// element and x. Infinities and NaN are preserved.
//
// Moments in 8 bits (base/moment_code.h) are read and quantized within the pass: the weights are
// updated with the f32 moments before they are rounded.
#pragma once

#include <cstdint>
#include <span>

#include "base/moment_code.h"
#include "base/optimizer_kind.h"
#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

// Constants of a run.
struct UpdateConstants {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  double rate_multiplier = 1;
};
// Numbers that change from step to step, in device memory.
struct UpdateNumbers {
  const double* learning_rate = nullptr;
  const double* step = nullptr;   // t, from 1
  const double* scale = nullptr;  // factor of the gradient: clip factor / tokens
  const double* skip = nullptr;   // if not 0, nothing is written
  const double* share = nullptr;  // c of schedule_free; others do not read it
};

// A range of elements [begin, end), with or without weight decay. For stochastic rounding, `key` is
// the key of its weight and `element` the index of its first element in the weight.
struct UpdateRange {
  int64_t begin = 0, end = 0;
  bool decay = true;
  uint64_t key = 0;
  int64_t element = 0;
};

// Ranges are in ascending order and do not overlap; elements outside of them are not changed. If
// moments have 8 bits, each range begins at a multiple of 64 elements, and the scale of a block
// belongs to the elements of the block that are in the range.
struct Update {
  TensorView weights = {};      // [n] f32 or bf16  updated (the master weights, if there are any)
  TensorView m = {}, v = {};    // [n] f32, bf16 or u8 (codes)  updated; none if the optimizer has
                                // none. schedule_free: weights is x, m is z; not u8
  TensorView gradient = {};     // [n] f32, bf16 or f16
  TensorView weights_low = {};  // [n]  written: weights (schedule_free: y) rounded to nearest; or
                                // none
  std::span<const UpdateRange> ranges = {};
  bool stochastic = false;
  TensorView m_scales = {}, v_scales = {};  // [n / 64, rounded up] f32  updated, if m and v are u8
};

struct UpdateArgs {
  OptimizerKind rule = OptimizerKind::kAdamW;  // one of kOnePassOptimizers
  Update update;
  UpdateConstants constants;
  UpdateNumbers numbers;
};
void launch(Cpu, const Launch&, const UpdateArgs&);
void launch(Gpu, const Launch&, const UpdateArgs&);

// to = from + share * (towards - from), all in f32; `to` may be rounded. The CPU's results are the
// bits of y that an update by schedule_free writes for z, x and beta1.
struct InterpolateArgs {
  float share = 0;
  TensorView from, towards;  // [n] f32
  TensorView to;             // [n] f32, bf16 or f16  written
};
void launch(Cpu, const Launch&, const InterpolateArgs&);

// average += rate * (weights - average)
struct WeightAverageArgs {
  float rate = 0;
  TensorView weights;            // [n] f32, bf16 or f16
  const double* skip = nullptr;  // if not 0, nothing is written
  TensorView average;            // [n] f32  updated
};
void launch(Cpu, const Launch&, const WeightAverageArgs&);
void launch(Gpu, const Launch&, const WeightAverageArgs&);

// ---- Conversions between moments in f32 and in 8 bits, on the host

// Quantizes whole blocks. codes [n], scales [n / 64]. REQUIRES: n = x.size() is a multiple of 64.
void quantize_moments(std::span<const float> x, MomentCode code, std::span<uint8_t> codes,
                      std::span<float> scales, int threads);

// Reads the moments [first, first + x.size()) of codes [n] with scales [n / 64]. Quantizing the
// moments of whole blocks again gives the same codes and scales.
void dequantize_moments(std::span<const uint8_t> codes, std::span<const float> scales,
                        MomentCode code, int64_t first, std::span<float> x);

}  // namespace tessera::kernels
