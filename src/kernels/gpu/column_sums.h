// Sums over the rows of gradients: dbias of sums and of activations, dgain and dbias of norms.
#pragma once

#include "kernels/gpu/activation.h"
#include "kernels/gpu/operand.h"
#include "tensor/gpu.h"

namespace tessera::kernels::gpu {

// to[c] += sum_n dy[n,c] and, if there is a gain, gain[c] += sum_n dy[n,c] * xh[n,c], in two
// stages: first `partials` stripes of rows, then their sums in order.
struct ColumnSums {
  Groups groups;
  Numbers dy;
  Numbers to;        // or none
  Numbers of, bias;  // where there are any: dy is times the slope of the activation of their sum
  Activation kind = Activation::kErf;
  Numbers x;  // of xh = (x - mean) * rstd
  const float* stats = nullptr;
  Numbers gain;
  Numbers dx;                 // written where there is an activation: dy times its slope; or none
  float* partials = nullptr;  // column_partials() floats
};
int64_t column_partials(int64_t rows, int64_t columns);  // both sums
void launch_column_sums(const ColumnSums& a, Stream s);

// to[c] += sum_s partials[s, c], gain[c] += sum_s partials[stripes + s, c], each in a fixed order.
struct ColumnJoin {
  const float* partials = nullptr;
  int64_t stripes = 0, columns = 0;
  Numbers to, gain;  // no data: none
};
void launch_column_join(const ColumnJoin& a, Stream s);

}  // namespace tessera::kernels::gpu
