#include "kernels/adafactor.h"

#include <cmath>

#define HWY_TARGET_INCLUDE "kernels/cpu/adafactor_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/adafactor_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(SweepAdafactor);

namespace {

// The part of a stretch that lies in one row: elements [begin, end) of the view, from `column` on.
struct RowPart {
  int64_t begin = 0, end = 0, column = 0;
};

RowPart part_in_row(const FactorStretch& s, int64_t row) {
  const int64_t first = std::max(s.element, row * s.columns);
  const int64_t last = std::min(s.element + (s.end - s.begin), (row + 1) * s.columns);
  const int64_t shift = s.begin - s.element;
  return {first + shift, last + shift, first - row * s.columns};
}

int64_t first_row(const FactorStretch& s) { return s.element / s.columns; }
int64_t end_row(const FactorStretch& s) {
  return (s.element + (s.end - s.begin) + s.columns - 1) / s.columns;
}

double square(const Source& g, int64_t i, double scale) {
  const double x = static_cast<double>(g[i]) * scale;
  return x * x;
}

}  // namespace

// Each sum is made by one thread, in the order of the elements.
void launch(Cpu, const Launch&, const FactorSumsArgs& a) {
  const FactorStretch& s = a.stretch;
  const Source g(a.gradient);
  if (*a.numbers.skip != 0 || s.begin >= s.end) return;
  const double scale = *a.numbers.scale, epsilon = a.epsilon;
  auto *const rows = a.rows.as<double>(), *const columns = a.columns.as<double>();
  if (s.columns == 0) {
    for (int64_t i = s.begin; i < s.end; ++i)
      rows[s.element + (i - s.begin)] += square(g, i, scale) + epsilon;
    return;
  }
  const int64_t from = first_row(s), to = end_row(s);
  parallel_rows(to - from, s.columns, [&](int64_t begin, int64_t end) {
    for (int64_t r = from + begin; r < from + end; ++r) {
      const RowPart p = part_in_row(s, r);
      double sum = 0;
      for (int64_t i = p.begin; i < p.end; ++i) sum += square(g, i, scale) + epsilon;
      rows[r] += sum;
    }
  });
  parallel_rows(s.columns, to - from, [&](int64_t begin, int64_t end) {
    for (int64_t r = from; r < to; ++r) {
      const RowPart p = part_in_row(s, r);
      const int64_t first = std::max(begin, p.column);
      const int64_t last = std::min(end, p.column + (p.end - p.begin));
      for (int64_t c = first; c < last; ++c)
        columns[c] += square(g, p.begin + (c - p.column), scale) + epsilon;
    }
  });
}

void launch(Cpu, const Launch&, const FactorMeansArgs& a) {
  if (*a.numbers.skip != 0) return;
  const FactorShape& shape = a.shape;
  const double b = 1 - std::pow(*a.numbers.step, -a.decay_power);
  const auto mix = [b](float& mean, double sum, int64_t n) {
    mean =
        static_cast<float>(b * static_cast<double>(mean) + (1 - b) * sum / static_cast<double>(n));
  };
  const int64_t per_row = shape.columns > 0 ? shape.columns : 1;
  for (int64_t i = 0; i < shape.rows; ++i) mix(a.rows[i], a.row_sums[i], per_row);
  for (int64_t j = 0; j < shape.columns; ++j) mix(a.columns[j], a.column_sums[j], shape.rows);
}

void launch(Cpu, const Launch&, const FactorScalesArgs& a) {
  const FactorShape& shape = a.shape;
  double mean = 1;
  if (shape.columns > 0) {
    mean = 0;
    for (int64_t i = 0; i < shape.rows; ++i) mean += static_cast<double>(a.rows[i]);
    mean /= static_cast<double>(shape.rows);
  }
  for (int64_t i = 0; i < shape.rows; ++i)
    a.row_scales[i] = static_cast<float>(1 / std::sqrt(static_cast<double>(a.rows[i]) / mean));
  for (int64_t j = 0; j < shape.columns; ++j)
    a.column_scales[j] = static_cast<float>(1 / std::sqrt(static_cast<double>(a.columns[j])));
}

namespace {

double sum_of_squares(const UpdateSquaresArgs& a) {
  const FactorStretch& s = a.stretch;
  const FactorScales& scales = a.scales;
  const Source g(a.gradient);
  const double scale = *a.numbers.scale;
  double total = 0;
  const auto add = [&](const RowPart& p, double row, const float* others) {
    for (int64_t i = p.begin; i < p.end; ++i) {
      const double u = static_cast<double>(g[i]) * scale * row *
                       static_cast<double>(others[p.column + (i - p.begin)]);
      total += u * u;
    }
  };
  if (s.columns == 0) {
    add({s.begin, s.end, s.element}, 1, scales.row_scales);
    return total;
  }
  for (int64_t r = first_row(s); r < end_row(s); ++r)
    add(part_in_row(s, r), static_cast<double>(scales.row_scales[r]), scales.column_scales);
  return total;
}

}  // namespace

void launch(Cpu, const Launch&, const UpdateSquaresArgs& a) {
  if (*a.numbers.skip == 0) *a.sum += sum_of_squares(a);
}

void launch(Cpu, const Launch&, const AdafactorArgs& a) {
  if (*a.numbers.skip != 0) return;
  const Update& u = a.update;
  const FactorNorms& norms = a.norms;
  CHECK(!u.v, "adafactor keeps factors in place of a second moment");
  const auto rms = [&](const double* squares) { return std::sqrt(*squares / norms.elements); };
  UpdateStep own = step_of(a.constants, a.numbers);
  if (norms.least_scale > 0)
    own.learning_rate *= std::max(norms.least_scale, rms(norms.weight_squares));
  UpdateOperands operands = operands_of(u, own, "adafactor");
  operands.columns = a.scales.columns;
  operands.row_scales = a.scales.row_scales;
  operands.column_scales = a.scales.column_scales;
  operands.update_clip =
      static_cast<float>(1 / std::max(1.0, rms(norms.update_squares) / norms.update_clip));
  sweep_stretches(u.ranges, HWY_DYNAMIC_DISPATCH(SweepAdafactor), operands);
}

}  // namespace tessera::kernels
