#include "kernels/cuda/adafactor.h"
#include "kernels/cuda/views.h"

namespace tessera::kernels::cuda {
namespace {

FactorWork work_of(View gradient, const FactorStretch& s, const UpdateNumbers& n) {
  return {numbers(gradient), s.begin, s.end, s.element, s.columns, n.scale, n.skip};
}

}  // namespace

void add_factor_sums(Stream s, View gradient, const FactorStretch& stretch, const UpdateNumbers& n,
                     double epsilon, void* workspace, double* rows, double* columns) {
  FactorSumsWork a;
  a.of = work_of(gradient, stretch, n);
  a.vector = aligned(gradient.data) && stretch.columns % kGroup == 0 &&
             (stretch.begin - stretch.element) % kGroup == 0;
  a.epsilon = epsilon;
  a.rows = rows;
  a.columns = columns;
  if (stretch.columns > 0) {
    const int64_t tiles = (stretch.columns + kFactorTile - 1) / kFactorTile;
    a.row_partials = static_cast<double*>(workspace);
    a.column_partials = a.row_partials + tiles * a.of.rows();
  }
  launch_factor_sums(a, s);
}

void update_factors(Stream s, const FactorShape& shape, const UpdateNumbers& n, double decay_power,
                    const double* row_sums, const double* column_sums, float* rows,
                    float* columns) {
  launch_factor_means({shape.rows, shape.columns, decay_power, n.step, n.skip, row_sums,
                       column_sums, rows, columns},
                      s);
}

void factor_scales(Stream s, const FactorShape& shape, const float* rows, const float* columns,
                   float* row_scales, float* column_scales) {
  launch_factor_scales({shape.rows, shape.columns, rows, columns, row_scales, column_scales}, s);
}

void add_update_squares(Stream s, View gradient, const FactorStretch& stretch,
                        const UpdateNumbers& n, const FactorScales& scales, void* workspace,
                        double* sum) {
  CHECK(aligned(gradient.data), "a gradient that is not aligned");
  launch_update_squares({work_of(gradient, stretch, n), scales.row_scales, scales.column_scales,
                         static_cast<double*>(workspace), sum},
                        s);
}

void adafactor(Stream s, const Update& u, const UpdateStep& step, const UpdateNumbers& n,
               const FactorScales& scales, const FactorNorms& norms) {
  AdafactorWork a;
  a.weights = numbers(u.weights);
  a.m = numbers(u.m);
  a.weights_low = numbers(u.weights_low);
  a.stochastic = u.stochastic;
  a.beta1 = step.beta1;
  a.weight_decay = step.weight_decay;
  a.learning_rate = n.learning_rate;
  a.step = n.step;
  a.row_scales = scales.row_scales;
  a.column_scales = scales.column_scales;
  a.weight_squares = norms.weight_squares;
  a.update_squares = norms.update_squares;
  a.elements = norms.elements;
  a.least_scale = norms.least_scale;
  a.update_clip = norms.update_clip;
  for (const Numbers& x : {a.weights, a.m, a.weights_low, numbers(u.gradient)})
    CHECK(aligned(x.data), "an update of weights that are not aligned");
  for (const UpdateRange& r : u.ranges) {
    a.of = work_of(u.gradient, {r.begin, r.end, r.element, scales.columns}, n);
    a.decay = r.decay;
    a.key = r.key;
    launch_adafactor(a, s);
  }
}

}  // namespace tessera::kernels::cuda
