// The gradient norm: sums of squares, and the clip factor that an update derives from them.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

constexpr int64_t kSquaresBlock = 4096;

// Adds the squares of a flat range in double, in fixed blocks of 4,096 elements: the bits are the
// same for any number of threads. A square of a float cannot overflow a double, so the sum is
// finite if and only if every element is.
struct SquaresArgs {
  TensorView x;           // [n] f32, bf16 or f16
  double* sum = nullptr;  // added to
};
void launch(Cpu, const Launch&, const SquaresArgs&);
void launch(Gpu, const Launch&, const SquaresArgs&);
int64_t workspace_bytes(Cpu, const SquaresArgs&, int threads);
int64_t workspace_bytes(Gpu, const SquaresArgs&, int threads);

struct FirstNonFiniteArgs {
  TensorView x;              // [n] f32, bf16 or f16
  int64_t* first = nullptr;  // written: the first element that is not finite; -1: all are
};
void launch(Cpu, const Launch&, const FirstNonFiniteArgs&);
void launch(Gpu, const Launch&, const FirstNonFiniteArgs&);
int64_t workspace_bytes(Gpu, const FirstNonFiniteArgs&, int threads);

// Computes the factor by which an update multiplies gradients:
//   norm = sqrt(squares) / n,  n = max(tokens, 1) * loss_scale
//   scale = min(1, limit / (norm + 1e-6)) / n        (limit 0: 1 / n)
//   skip = 1 if squares or loss are not finite or skip_before is set, else 0
// The constant 1e-6 is that of PyTorch and Megatron, so clipped runs are comparable.
struct ClipArgs {
  const double *tokens = nullptr, *squares = nullptr, *loss = nullptr;
  const double *loss_scale = nullptr, *skip_before = nullptr;
  double *norm = nullptr, *scale = nullptr, *skip = nullptr;  // written
  double limit = 0;
};
void launch(Cpu, const Launch&, const ClipArgs&);
void launch(Gpu, const Launch&, const ClipArgs&);

}  // namespace tessera::kernels
