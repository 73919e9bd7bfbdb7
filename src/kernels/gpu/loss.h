// Rows of logits, as the loss kernels read them.
#pragma once

#include "kernels/cross_entropy.h"
#include "kernels/gpu/operand.h"
#include "tensor/gpu.h"

namespace tessera::kernels::gpu {

// All columns, or those of this rank.
struct LossWork {
  float* z = nullptr;  // [rows, width]
  int64_t rows = 0, width = 0;
  int64_t columns = 0, first = 0, total = 0;  // as in DividedLogits
  bool vector = false;
  const int32_t* labels = nullptr;
  double* losses = nullptr;    // [rows]
  double* squares = nullptr;   // [rows]  lse^2; none without extras.z_loss
  double* report = nullptr;    // [0] += loss, [1] += rows that count; or none
  double* z_report = nullptr;  // += z-loss; or none
  bool gradient = false;
  float soft_cap = 0;  // 0: none
  LossExtras extras = {};
  Numbers dz;  // [rows, width]: z itself, or elsewhere
  float scale = 1;
  const double* loss_scale = nullptr;  // times `scale`
  float* max = nullptr;                // [rows], divided alone
  float* sums = nullptr;               // [rows, 2]
};

// The loss and the gradient of whole rows.
void launch_loss(const LossWork& a, Stream s);

}  // namespace tessera::kernels::gpu
