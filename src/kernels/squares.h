// The sum of squares of a flat range, in double, by fixed blocks of 4,096 elements: the same bits
// for any number of threads. A square of a float cannot overflow a double, so the sum is finite
// exactly if every element is.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

constexpr int64_t kSquaresBlock = 4096;

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

}  // namespace tessera::kernels
