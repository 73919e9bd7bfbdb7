// From the sums of a step to what its update multiplies gradients by:
//   norm = sqrt(squares) / n,  n = max(tokens, 1) * loss_scale
//   scale = min(1, limit / (norm + 1e-6)) / n        (limit 0: 1 / n)
//   skip = 1 where squares or loss are not finite or skip_before is set, else 0
// The small number is PyTorch's and Megatron's, so that a clipped run equals theirs.
#pragma once

#include "kernels/kernel.h"

namespace tessera::kernels {

struct ClipArgs {
  const double *tokens = nullptr, *squares = nullptr, *loss = nullptr;
  const double *loss_scale = nullptr, *skip_before = nullptr;
  double *norm = nullptr, *scale = nullptr, *skip = nullptr;  // written
  double limit = 0;
};
void launch(Cpu, const Launch&, const ClipArgs&);
void launch(Gpu, const Launch&, const ClipArgs&);

}  // namespace tessera::kernels
