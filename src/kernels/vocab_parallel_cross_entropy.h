// Vocabulary-parallel cross-entropy: this rank has some columns of the logits. Three steps; between
// them the ranks reduce the results of the first by maximum and those of the second by sum.
//
//   m[n]    = max_v z[n, v]                          over own columns; −inf where there is none
//   s[n, 0] = sum_v e^(z[n, v] - m[n])               over own columns
//   s[n, 1] = z[n, label[n]] - m[n]                  by the rank that has the label, else 0
//   loss    = sum_n ln s[n, 0] - s[n, 1]             nats, over the rows whose label is not ignored
//   dz      = gradient_scale * (e^(z[n, v] - m[n]) / s[n, 0] - [v = label[n]])
//             0 in ignored rows and in padding
//
// The extras are those of kernels/cross_entropy.h, with lse = m[n] + ln s[n, 0] and the vocabulary
// of all ranks.
//
// Sums are computed as in kernels/cross_entropy.h; the result does not depend on the number of
// threads. A logit that is NaN or +inf makes the loss NaN.
#pragma once

#include <cstdint>

#include "kernels/cross_entropy.h"
#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

struct DividedLogits {
  TensorView z;         // [N, C] f32
  int64_t columns = 0;  // the first `columns` of C are logits; the rest is padding
  int64_t first = 0;    // global number of the first column
  int64_t total = 0;    // columns of all ranks
  float soft_cap = 0;   // as in CrossEntropyArgs
};

struct LogitsMaxArgs {
  DividedLogits logits;
  TensorView max;  // [N] f32  written
};
void launch(Cpu, const Launch&, const LogitsMaxArgs&);
void launch(Gpu, const Launch&, const LogitsMaxArgs&);

struct LogitsSumsArgs {
  DividedLogits logits;
  TensorView max;     // [N] f32, of all ranks
  TensorView labels;  // [N] i32: 0 … total-1, or kIgnoredLabel; CHECKed
  TensorView sums;    // [N, 2] f32  written
};
void launch(Cpu, const Launch&, const LogitsSumsArgs&);
void launch(Gpu, const Launch&, const LogitsSumsArgs&);

// Computes dz from ds, the gradient of the sums, for losses other than the one below:
// ds[n, 0] e^(z[n, v] - m[n]) + ds[n, 1] [v = label[n]], times the slope of the cap.
struct LogitsSumsGradArgs {
  DividedLogits logits;       // overwritten by dz
  TensorView max;             // [N] f32, of all ranks
  TensorView labels, d_sums;  // [N] i32, [N, 2] f32
};
void launch(Cpu, const Launch&, const LogitsSumsGradArgs&);
void launch(Gpu, const Launch&, const LogitsSumsGradArgs&);

struct VocabParallelCrossEntropyArgs {
  DividedLogits logits;      // with `gradient`: overwritten by dz
  TensorView max, sums;      // reduced over all ranks
  TensorView labels;         // [N] i32
  double* report = nullptr;  // [0] += loss, [1] += rows with a label; nullptr on other ranks
  bool gradient = false;
  LossExtras extras = {};
  double* z_report = nullptr;  // += z_loss, if extras.z_loss is set; nullptr on other ranks
  float gradient_scale = 1;
  const double* loss_scale = nullptr;  // on the device: multiplies gradient_scale; nullptr: 1
};
void launch(Cpu, const Launch&, const VocabParallelCrossEntropyArgs&);
void launch(Gpu, const Launch&, const VocabParallelCrossEntropyArgs&);

}  // namespace tessera::kernels
