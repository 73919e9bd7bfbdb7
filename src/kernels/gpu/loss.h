// Rows of logits, as the loss kernels read them.
#pragma once

#include "kernels/cross_entropy.h"
#include "kernels/gpu/operand.h"
#include "tensor/gpu.h"

namespace tessera::kernels::gpu {

// The logits of all columns, or of this rank's, with the inputs and outputs of the loss.
struct LossWork {
  float* z = nullptr;  // [rows, width]
  int64_t rows = 0, width = 0;
  int64_t columns = 0, first = 0, total = 0;  // as in DividedLogits
  bool vector = false;
  const int32_t* labels = nullptr;
  double* losses = nullptr;    // [rows]
  double* squares = nullptr;   // [rows]  lse^2; nullptr without extras.z_loss
  double* report = nullptr;    // [0] += loss, [1] += rows with a label; or nullptr
  double* z_report = nullptr;  // += z-loss; or nullptr
  bool gradient = false;
  float soft_cap = 0;  // 0: none
  LossExtras extras = {};
  Numbers dz;  // [rows, width]; may be z itself
  float scale = 1;
  const double* loss_scale = nullptr;  // multiplies `scale`; or nullptr
  float* max = nullptr;                // [rows], only if ranks divide the columns
  float* sums = nullptr;               // [rows, 2], likewise
};

// The loss and the gradient of whole rows.
void launch_loss(const LossWork& a, Stream s);

}  // namespace tessera::kernels::gpu
