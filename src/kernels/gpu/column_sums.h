// Sums over the rows of gradients, for dbias of sums and activations and for dgain and dbias of
// norms.
#pragma once

#include "kernels/gpu/activation.h"
#include "kernels/gpu/operand.h"
#include "tensor/gpu.h"

namespace tessera::kernels::gpu {

// to[c] += sum_n dy[n,c] and, if there is a gain, gain[c] += sum_n dy[n,c] * xh[n,c], in two
// stages: stripes of rows are summed into `partials`, which are then added in order.
struct ColumnSums {
  Groups groups;
  Numbers dy;
  Numbers to;        // or none
  Numbers of, bias;  // if given, dy is multiplied by the slope of the activation at their sum
  Activation kind = Activation::kErf;
  Numbers x;  // xh = (x - mean) * rstd
  const float* stats = nullptr;
  Numbers gain;
  Numbers dx;                 // written if there is an activation: dy times its slope; or none
  float* partials = nullptr;  // column_partials() floats
};
int64_t column_partials(int64_t rows, int64_t columns);  // number of floats for both sums
void launch_column_sums(const ColumnSums& a, Stream s);

// to[c] += sum_s partials[s, c], gain[c] += sum_s partials[stripes + s, c], each in a fixed order.
struct ColumnJoin {
  const float* partials = nullptr;
  int64_t stripes = 0, columns = 0;
  Numbers to, gain;  // no data: none
};
void launch_column_join(const ColumnJoin& a, Stream s);

}  // namespace tessera::kernels::gpu
