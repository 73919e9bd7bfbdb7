// Launchers of kernels on rows: what each computes stands in the header of kernels/ that it is
// named after. Memory is the device's.
#pragma once

#include "kernels/cuda/groups.h"
#include "tensor/stream.h"

namespace tessera::kernels::cuda {

constexpr int kMostTerms = 4;

// out = sum of the terms and of the biases.
struct SumRows {
  Groups groups;
  int terms = 0, biases = 0;
  Numbers term[kMostTerms], bias[kMostTerms];
  Numbers out;
};
void launch_sum(const SumRows& a, Stream s);

// The norm of `sum.out`, which is made first where there are terms.
struct NormRows {
  SumRows sum;
  bool centred = true;
  float epsilon = 0;
  int outputs = 0;
  Numbers gain[kMostTerms], bias[kMostTerms], y[kMostTerms];
  float* stats = nullptr;
};
void launch_norm(const NormRows& a, Stream s);

struct NormGradRows {
  Groups groups;
  bool centred = true, accumulate = false;
  Numbers x, gain, dy, dx;
  const float* stats = nullptr;
};
void launch_norm_grad(const NormGradRows& a, Stream s);  // dx alone

// dx and the sums over rows in one sweep: dgain[c] += sum_n dy xh, dbias[c] += sum_n dy. Rows of up
// to kMostSweptColumns.
constexpr int64_t kMostSweptColumns = 4096;
struct NormGradSweep {
  NormGradRows rows;
  Numbers dgain, dbias;       // no data: none
  float* partials = nullptr;  // norm_grad_partials() floats
};
void launch_norm_grad_sweep(const NormGradSweep& a, Stream s);
int64_t norm_grad_partials(int64_t rows, int64_t columns);  // of this and of launch_column_sums

// to[c] += sum_n dy[n,c], and beside it gain[c] += sum_n dy[n,c] * xh[n,c] where there is a gain,
// in two stages: stripes of rows first, `partials` of them, then their sums in order.
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
int64_t column_stripes(int64_t rows);
int64_t column_partials(int64_t rows, int64_t columns);  // both sums
void launch_column_sums(const ColumnSums& a, Stream s);

// to[c] += sum_s partials[s, c], gain[c] += sum_s partials[stripes + s, c], each in a fixed order.
struct ColumnJoin {
  const float* partials = nullptr;
  int64_t stripes = 0, columns = 0;
  Numbers to, gain;  // no data: none
};
void launch_column_join(const ColumnJoin& a, Stream s);

struct GeluRows {
  Groups groups;
  Activation kind = Activation::kErf;
  Numbers x, bias;  // no data: none
  Numbers y;
  Numbers dy;  // of the gradient: y is dx
};
void launch_gelu(const GeluRows& a, Stream s);
void launch_gelu_grad(const GeluRows& a, Stream s);

// n pairs.
struct GatedPairs {
  Groups groups;  // one row of n
  Activation kind = Activation::kSilu;
  Numbers x, y;
  Numbers dy, dx;  // of the gradient
};
void launch_gated(const GatedPairs& a, Stream s);
void launch_gated_grad(const GatedPairs& a, Stream s);

struct DropRows {
  Groups groups;
  Numbers x, y;
  const int64_t* samples = nullptr;
  int64_t rows_of_sample = 1;
  MaskKey key;
  uint8_t* kept = nullptr;  // [rows, columns]  written: 1 where kept; or none
  float probability = 0, scale = 1;
  int64_t first_row = 0, first_column = 0, width = 0;
};
void launch_dropout(const DropRows& a, Stream s);
void launch_dropout_grad(const DropRows& a, Stream s);  // of x, y, kept and scale alone

// y = factor * x.
struct ScaleFlat {
  Groups groups;
  Numbers x, y;
  float factor = 1;
};
void launch_scale(const ScaleFlat& a, Stream s);

}  // namespace tessera::kernels::cuda
