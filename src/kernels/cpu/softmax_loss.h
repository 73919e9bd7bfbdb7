// Rows of logits to losses and gradients: what cross_entropy and linear_cross_entropy share.
#pragma once

#include <cstdint>

#include "kernels/cpu/operand.h"
#include "kernels/cross_entropy.h"

namespace tessera::kernels {

struct LossRows {
  float* logits = nullptr;          // [rows, columns]; with a gradient it is overwritten
  const int32_t* labels = nullptr;  // [rows]
  double* losses = nullptr;         // [rows]  written; 0 where ignored
  double* squares = nullptr;        // [rows]  lse^2, likewise; none without extras.z_loss
  int64_t rows = 0, columns = 0;
  bool gradient = false;
  float soft_cap = 0;  // 0: none
  LossExtras extras = {};
  Sink rounded = {};  // [rows, columns]: the gradient; unset: it overwrites the logits
  float gradient_scale = 1.0f;
};

// Works on all rows with that many threads; adds to report[0] and [1], and the z-loss to z_report,
// in the order of rows.
void loss_of_rows(const LossRows& rows, double* report, double* z_report, int threads);

}  // namespace tessera::kernels
