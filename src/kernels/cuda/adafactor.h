// Launchers of Adafactor's parts (kernels/adafactor.h).
#pragma once

#include "kernels/cuda/operand.h"
#include "kernels/cuda/step.h"

namespace tessera::kernels::cuda {

// A stretch of a flat gradient, and what is known of its weight.
struct FactorWork {
  Numbers gradient;
  int64_t begin = 0, end = 0, element = 0, columns = 0;  // FactorStretch
  const double *scale = nullptr, *skip = nullptr;

  __host__ __device__ int64_t first_row() const { return element / columns; }
  __host__ __device__ int64_t end_row() const {
    return (element + (end - begin) + columns - 1) / columns;
  }
  __host__ __device__ int64_t rows() const { return end_row() - first_row(); }
};

constexpr int64_t kFactorTile = 256;  // columns of a block that adds squares
// `row_partials` has rows x tiles of columns, `column_partials` stripes x columns.
struct FactorSumsWork {
  FactorWork of;
  bool vector = false;  // rows by 16 bytes
  double epsilon = 0, *rows = nullptr, *columns = nullptr;
  double *row_partials = nullptr, *column_partials = nullptr;
};
// Doubles for the partials of any stretch of `elements` of weights with `factors` rows and columns.
int64_t factor_partials(int64_t elements, int64_t factors);
void launch_factor_sums(const FactorSumsWork& a, Stream s);

struct FactorMeansWork {
  int64_t rows = 0, columns = 0;
  double decay_power = 0;
  const double *step = nullptr, *skip = nullptr, *row_sums = nullptr, *column_sums = nullptr;
  float *row_means = nullptr, *column_means = nullptr;
};
void launch_factor_means(const FactorMeansWork& a, Stream s);

struct FactorScalesWork {
  int64_t rows = 0, columns = 0;
  const float *row_means = nullptr, *column_means = nullptr;
  float *row_scales = nullptr, *column_scales = nullptr;
};
void launch_factor_scales(const FactorScalesWork& a, Stream s);

// *sum += the sum of the changes' squares; `partials` has squares_partials(end - begin) doubles.
struct UpdateSquaresWork {
  FactorWork of;
  const float *row_scales = nullptr, *column_scales = nullptr;
  double *partials = nullptr, *sum = nullptr;
};
void launch_update_squares(const UpdateSquaresWork& a, Stream s);

// The update of one range.
struct AdafactorWork {
  FactorWork of;
  Numbers weights, m, weights_low;  // no data: none
  bool decay = true, stochastic = false;
  uint64_t key = 0;
  double beta1 = 0, weight_decay = 0;
  const double *learning_rate = nullptr, *step = nullptr;
  const float *row_scales = nullptr, *column_scales = nullptr;
  const double *weight_squares = nullptr, *update_squares = nullptr;  // FactorNorms
  double elements = 1, least_scale = 0, update_clip = 1;
};
void launch_adafactor(const AdafactorWork& a, Stream s);

}  // namespace tessera::kernels::cuda
