// Adafactor on the CPU: sums of g^2 over rows and columns, the factored moments, the scales of each
// row and column, and the update itself (formulas in the header). A rank may hold any contiguous
// range of a weight, so a range usually begins and ends within a row:
//   columns      0 ─────────────── C
//   row 3        . . . . █ █ █ █ █      part_in_row(s, 3): column 4 to C
//   row 4        █ █ █ █ █ █ █ █ █
//   row 5        █ █ █ . . . . . .      part_in_row(s, 5): column 0 to 3
// Sums are f64: the squares of a matrix span more than the 24 bits of f32, and the partial sums of
// the ranks are added afterwards.
#include "kernels/adafactor.h"

#include <array>
#include <cmath>
#include <numeric>

#define HWY_TARGET_INCLUDE "kernels/cpu/adafactor_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/adafactor_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(SweepAdafactor);

namespace {

// The part of a range that belongs to one row: elements [begin, end) of the view, the first of
// which is in `column`.
struct RowPart {
  int64_t begin = 0, end = 0, column = 0;
};

RowPart part_in_row(const FactorRun& s, int64_t row) {
  const int64_t first = std::max(s.element, row * s.columns);
  const int64_t last = std::min(s.element + (s.end - s.begin), (row + 1) * s.columns);
  const int64_t shift = s.begin - s.element;
  return {first + shift, last + shift, first - row * s.columns};
}

int64_t first_row(const FactorRun& s) { return s.element / s.columns; }
int64_t end_row(const FactorRun& s) {
  return (s.element + (s.end - s.begin) + s.columns - 1) / s.columns;
}

// Calls f(values, first, n) for the elements [begin, end) of the view in order. `values` are n
// elements as f32, the first of which is element begin + first.
template <class F>
void each_chunk(const TensorView& view, int64_t begin, int64_t end, const F& f) {
  if (view.dtype == DType::kF32) return f(view.f32() + begin, int64_t{0}, end - begin);
  constexpr int64_t kChunk = 256;
  const Source from(view);
  std::array<float, kChunk> values;
  for (int64_t i = begin; i < end; i += kChunk) {
    const int64_t n = std::min(kChunk, end - i);
    for (int64_t k = 0; k < n; ++k) values[k] = from[i + k];
    f(values.data(), i - begin, n);
  }
}

// A sum of doubles as eight interleaved sums. They are independent, so the compiler can use vectors
// and an addition need not wait for the previous one.
class InterleavedSum {
 public:
  // Adds term(0) … term(n - 1).
  template <class F>
  void add(int64_t n, const F& term) {
    int64_t i = 0;
    for (; i + kSums <= n; i += kSums)
      for (int64_t k = 0; k < kSums; ++k) sums_[k] += term(i + k);
    for (; i < n; ++i) sums_[0] += term(i);
  }
  double total() const { return std::accumulate(sums_.begin(), sums_.end(), 0.0); }

 private:
  static constexpr int64_t kSums = 8;
  std::array<double, kSums> sums_ = {};
};

double square(double x) { return x * x; }

}  // namespace

// Each sum is computed by one thread, in an order that does not depend on the number of threads:
// row sums are divided among threads by rows, column sums by columns.
void launch(Cpu, const Launch& l, const FactorSumsArgs& a) {
  const FactorRun& s = a.run;
  if (*a.numbers.skip != 0 || s.begin >= s.end) return;
  const double factor = *a.numbers.scale * *a.numbers.scale, epsilon = a.epsilon;
  auto *const rows = a.rows.as<double>(), *const columns = a.columns.as<double>();
  const auto add_squares = [&](int64_t begin, int64_t end, double* sums) {
    each_chunk(a.gradient, begin, end, [&](const float* x, int64_t first, int64_t n) {
      for (int64_t i = 0; i < n; ++i) sums[first + i] += square(x[i]) * factor + epsilon;
    });
  };
  if (s.columns == 0) return add_squares(s.begin, s.end, rows + s.element);
  const int64_t from = first_row(s), to = end_row(s);
  parallel_rows(to - from, s.columns, l.threads, [&](int64_t begin, int64_t end) {
    for (int64_t r = from + begin; r < from + end; ++r) {
      const RowPart p = part_in_row(s, r);
      InterleavedSum sum;
      each_chunk(a.gradient, p.begin, p.end, [&](const float* x, int64_t, int64_t n) {
        sum.add(n, [&](int64_t i) { return square(x[i]); });
      });
      rows[r] += sum.total() * factor + static_cast<double>(p.end - p.begin) * epsilon;
    }
  });
  parallel_rows(s.columns, to - from, l.threads, [&](int64_t begin, int64_t end) {
    for (int64_t r = from; r < to; ++r) {
      const RowPart p = part_in_row(s, r);
      const int64_t first = std::max(begin, p.column);
      const int64_t last = std::min(end, p.column + (p.end - p.begin));
      if (first >= last) continue;
      const int64_t at = p.begin + (first - p.column);
      add_squares(at, at + (last - first), columns + first);
    }
  });
}

void launch(Cpu, const Launch&, const FactorMeansArgs& a) {
  if (*a.numbers.skip != 0) return;
  const FactorShape& shape = a.shape;
  // b = 1 - t^-decay_power is 0 in the first step, so the moments need no bias correction.
  const double b = 1 - std::pow(*a.numbers.step, -a.decay_power);
  const auto mix = [b](float& mean, double sum, int64_t n) {
    mean = rounded(b * mean + (1 - b) * sum / static_cast<double>(n));
  };
  const int64_t per_row = shape.columns > 0 ? shape.columns : 1;
  for (int64_t i = 0; i < shape.rows; ++i) mix(a.rows[i], a.row_sums[i], per_row);
  for (int64_t j = 0; j < shape.columns; ++j) mix(a.columns[j], a.column_sums[j], shape.rows);
}

// u = g / sqrt(row column / mean(row)) as a product of two factors, so the update needs no
// division: row_scale = 1 / sqrt(row / mean(row)), column_scale = 1 / sqrt(column).
void launch(Cpu, const Launch&, const FactorScalesArgs& a) {
  const FactorShape& shape = a.shape;
  double mean = 1;
  if (shape.columns > 0) {
    mean = 0;
    for (int64_t i = 0; i < shape.rows; ++i) mean += a.rows[i];
    mean /= static_cast<double>(shape.rows);
  }
  for (int64_t i = 0; i < shape.rows; ++i)
    a.row_scales[i] = rounded(1 / std::sqrt(a.rows[i] / mean));
  for (int64_t j = 0; j < shape.columns; ++j) {
    const double of_column = a.columns[j];
    a.column_scales[j] = rounded(1 / std::sqrt(of_column));
  }
}

namespace {

double sum_of_squares(const UpdateSquaresArgs& a) {
  const FactorRun& s = a.run;
  const FactorScales& scales = a.scales;
  const double scale = *a.numbers.scale;
  // Returns the sum of (g[i] * others[i])^2 over [begin, end).
  const auto sum_of = [&](int64_t begin, int64_t end, const float* others) {
    InterleavedSum sum;
    each_chunk(a.gradient, begin, end, [&](const float* x, int64_t first, int64_t n) {
      sum.add(n, [&](int64_t i) {
        const double u = x[i];
        return square(u * others[first + i]);
      });
    });
    return sum.total();
  };
  if (s.columns == 0) return sum_of(s.begin, s.end, scales.row_scales + s.element) * scale * scale;
  double total = 0;
  for (int64_t r = first_row(s); r < end_row(s); ++r) {
    // The factors of scale and row are the same for the whole row and are applied to its sum.
    const RowPart p = part_in_row(s, r);
    const double factor = scale * scales.row_scales[r];
    total += sum_of(p.begin, p.end, scales.column_scales + p.column) * factor * factor;
  }
  return total;
}

}  // namespace

void launch(Cpu, const Launch&, const UpdateSquaresArgs& a) {
  if (*a.numbers.skip == 0) *a.sum += sum_of_squares(a);
}

void launch(Cpu, const Launch& l, const AdafactorArgs& a) {
  if (*a.numbers.skip != 0) return;
  const Update& u = a.update;
  const FactorNorms& norms = a.norms;
  CHECK(!u.v, "adafactor has factors instead of a second moment");
  const auto rms = [&](const double* squares) { return std::sqrt(*squares / norms.elements); };
  UpdateStep own = step_of(a.constants, a.numbers);
  if (norms.least_scale > 0)
    own.learning_rate *= std::max(norms.least_scale, rms(norms.weight_squares));
  UpdateOperands operands = operands_of(u, own, "adafactor");
  operands.columns = a.scales.columns;
  operands.row_scales = a.scales.row_scales;
  operands.column_scales = a.scales.column_scales;
  // u / max(1, rms(u) / update_clip), as one factor for all elements.
  operands.update_clip = rounded(1 / std::max(1.0, rms(norms.update_squares) / norms.update_clip));
  sweep_runs(u.ranges, HWY_DYNAMIC_DISPATCH(SweepAdafactor), operands, l.threads);
}

}  // namespace tessera::kernels
