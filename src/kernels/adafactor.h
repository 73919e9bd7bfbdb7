// Adafactor (Shazeer & Stern 2018) as transformers has it: the second moment of a matrix [R, C] is
// kept as the means of its rows and columns, so its memory is R + C numbers. With g = scale *
// gradient, t the step from 1 and b = 1 - t^-decay_power:
//   row[i] = b row[i] + (1 - b) mean_j (g[i,j]^2 + epsilon),   column[j] the same over i
//   u[i,j] = g[i,j] / sqrt(row[i] column[j] / mean_i row[i])
//   u /= max(1, rms(u) / update_clip)
//   rate = learning_rate * max(least_scale, rms(w)),  or learning_rate alone without least_scale
//   w = (1 - rate * weight_decay) w - rate * u       (with beta1: minus m = beta1 m + (1 - beta1)
//                                                     rate * u)
// A vector keeps the mean of each element's squares: row alone, u = g / sqrt(row).
//
// A rank has stretches of a weight, so the sums over rows and columns, of w^2 and of u^2 are made
// in parts, in double precision, which the ranks add before they go on.
#pragma once

#include "kernels/update.h"

namespace tessera::kernels {

// Elements [begin, end) of a flat view; `begin` is that element of a weight of `columns` columns,
// or of a vector (columns = 0).
struct FactorStretch {
  int64_t begin = 0, end = 0, element = 0, columns = 0;
};

// rows[i] += sum_j (g^2 + epsilon), columns[j] += sum_i of the same, over the stretch.
void add_factor_sums(const TensorView& gradient,  // f32 or bf16
                     const FactorStretch& stretch, double scale, double epsilon, double* rows,
                     double* columns);

// How many rows and columns (0: a vector) the numbers of a weight are.
struct FactorShape {
  int64_t rows = 0, columns = 0;
};

// The means after this step, from those before it and the sums of all ranks. b as above.
void update_factors(const FactorShape& shape, double b, const double* row_sums,
                    const double* column_sums, float* rows, float* columns);
// u[i,j] = g[i,j] * row_scales[i] * column_scales[j].
void factor_scales(const FactorShape& shape, const float* rows, const float* columns,
                   float* row_scales, float* column_scales);

// The scales of a weight; no columns: a vector.
struct FactorScales {
  int64_t columns = 0;
  const float *row_scales = nullptr, *column_scales = nullptr;
};
// The sums of squares of a weight's elements and of its changes, over all ranks, and what they are
// compared with.
struct FactorNorms {
  const double *weight_squares = nullptr, *update_squares = nullptr;
  double elements = 1, least_scale = 0, update_clip = 1;
};
// The sum of u^2 over the stretch.
double sum_of_update_squares(const TensorView& gradient, const FactorStretch& stretch, double scale,
                             const FactorScales& scales);

// w and m of one weight.
void adafactor(const Update& u, const UpdateStep& step, const FactorScales& scales,
               const FactorNorms& norms);

}  // namespace tessera::kernels
