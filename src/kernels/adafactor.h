// Adafactor (Shazeer & Stern 2018) as in Hugging Face transformers: the second moment of a matrix
// [R, C] is stored as the means of its rows and columns, so it needs R + C numbers. With g = scale
// * gradient, t the step (from 1) and b = 1 - t^-decay_power:
//   row[i] = b row[i] + (1 - b) mean_j (g[i,j]^2 + epsilon),   column[j] the same over i
//   u[i,j] = g[i,j] / sqrt(row[i] column[j] / mean_i row[i])
//   u /= max(1, rms(u) / update_clip)
//   rate = learning_rate * max(least_scale, rms(w)),  or learning_rate alone without least_scale
//   w = (1 - rate * weight_decay) w - rate * u       (with beta1: minus m = beta1 m + (1 - beta1)
//                                                     rate * u)
// For a vector, `row` has the second moment of each element: u = g / sqrt(row).
//
// A rank has contiguous ranges of a weight. It computes partial sums over rows and columns, of w^2
// and of u^2 in double precision; the ranks add these before they continue.
#pragma once

#include "kernels/update.h"

namespace tessera::kernels {

// Elements [begin, end) of a flat view. `element` is the index of the first one in its weight,
// which has `columns` columns or is a vector (columns = 0).
struct FactorRun {
  int64_t begin = 0, end = 0, element = 0, columns = 0;
};

// A skipped step (UpdateNumbers::skip) changes nothing.

// rows[i] += sum_j (g^2 + epsilon), columns[j] += sum_i (g^2 + epsilon), over the range. The
// workspace suffices for any range of this gradient, of weights with at most this number of rows
// plus columns.
struct FactorSumsArgs {
  TensorView gradient;  // [n] f32, bf16 or f16
  FactorRun run;
  UpdateNumbers numbers;  // scale and skip
  double epsilon = 0;
  TensorView rows;     // [R] f64  added to
  TensorView columns;  // [C] f64  added to; no data for a vector
};
void launch(Cpu, const Launch&, const FactorSumsArgs&);
void launch(Gpu, const Launch&, const FactorSumsArgs&);
int64_t workspace_bytes(Gpu, const FactorSumsArgs&, int threads);

// The number of rows and columns of a weight; columns = 0: a vector.
struct FactorShape {
  int64_t rows = 0, columns = 0;
};

// Updates the means of rows and columns from the sums of all ranks: mean = b mean + (1 - b) sum /
// n.
struct FactorMeansArgs {
  FactorShape shape;
  UpdateNumbers numbers;  // step and skip
  double decay_power = 0;
  const double *row_sums = nullptr, *column_sums = nullptr;
  float *rows = nullptr, *columns = nullptr;  // updated
};
void launch(Cpu, const Launch&, const FactorMeansArgs&);
void launch(Gpu, const Launch&, const FactorMeansArgs&);

// u[i,j] = g[i,j] * row_scales[i] * column_scales[j].
struct FactorScalesArgs {
  FactorShape shape;
  const float *rows = nullptr, *columns = nullptr;
  float *row_scales = nullptr, *column_scales = nullptr;  // written
};
void launch(Cpu, const Launch&, const FactorScalesArgs&);
void launch(Gpu, const Launch&, const FactorScalesArgs&);

// The scales of a weight; a vector has no columns.
struct FactorScales {
  int64_t columns = 0;
  const float *row_scales = nullptr, *column_scales = nullptr;
};
// The sums of squares of a weight's elements and of its updates u, over all ranks, and the
// thresholds that they are compared with.
struct FactorNorms {
  const double *weight_squares = nullptr, *update_squares = nullptr;
  double elements = 1, least_scale = 0, update_clip = 1;
};

// *sum += the sum of u^2 over the range.
struct UpdateSquaresArgs {
  TensorView gradient;  // [n] f32, bf16 or f16
  FactorRun run;
  UpdateNumbers numbers;  // scale and skip
  FactorScales scales;
  double* sum = nullptr;
};
void launch(Cpu, const Launch&, const UpdateSquaresArgs&);
void launch(Gpu, const Launch&, const UpdateSquaresArgs&);
int64_t workspace_bytes(Gpu, const UpdateSquaresArgs&, int threads);

// Updates w and m of one weight.
struct AdafactorArgs {
  Update update;
  UpdateConstants constants;
  UpdateNumbers numbers;
  FactorScales scales;
  FactorNorms norms;
};
void launch(Cpu, const Launch&, const AdafactorArgs&);
void launch(Gpu, const Launch&, const AdafactorArgs&);

}  // namespace tessera::kernels
