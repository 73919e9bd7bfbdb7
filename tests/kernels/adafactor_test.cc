// Adafactor against plain loops in double, whole and cut into runs as ranks have them.
#include "kernels/adafactor.h"

#include "tests/kernels/array.h"
#include "tests/kernels/update_step.h"

namespace tessera::kernels {
namespace {

constexpr double kEpsilon = 1e-30, kLeast = 1e-3, kClip = 0.5;

// transformers' Adafactor on one weight [rows, columns] (columns 0: a vector), in double.
struct Reference {
  FactorShape shape;
  std::vector<double> w, row, column, m;

  int64_t width() const { return shape.columns > 0 ? shape.columns : 1; }
  double u(const Array& g, int64_t i, double mean) const {
    const double r = row[static_cast<size_t>(i / width())];
    if (shape.columns == 0) return g.at(i) / std::sqrt(r);
    return g.at(i) / std::sqrt(r * column[static_cast<size_t>(i % width())] / mean);
  }
  void step(const Array& g, int64_t t, double learning_rate, double decay, double beta1) {
    const double b = 1 - std::pow(static_cast<double>(t), -0.8);
    const int64_t n = g.size();
    std::vector<double> rows(row.size()), columns(column.size());
    double squares = 0, updates = 0, mean = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double s = g.at(i) * g.at(i) + kEpsilon;
      rows[static_cast<size_t>(i / width())] += s / static_cast<double>(width());
      if (shape.columns > 0)
        columns[static_cast<size_t>(i % width())] += s / static_cast<double>(shape.rows);
      squares += w[static_cast<size_t>(i)] * w[static_cast<size_t>(i)];
    }
    for (size_t i = 0; i < rows.size(); ++i) row[i] = b * row[i] + (1 - b) * rows[i];
    for (size_t j = 0; j < columns.size(); ++j) column[j] = b * column[j] + (1 - b) * columns[j];
    for (const double r : row) mean += r / static_cast<double>(row.size());
    for (int64_t i = 0; i < n; ++i) updates += u(g, i, mean) * u(g, i, mean);
    const auto count = static_cast<double>(n);
    const double clip = std::max(1.0, std::sqrt(updates / count) / kClip);
    const double rate = learning_rate * std::max(kLeast, std::sqrt(squares / count));
    for (int64_t i = 0; i < n; ++i) {
      const auto e = static_cast<size_t>(i);
      m[e] = beta1 * m[e] + (1 - beta1) * rate * u(g, i, mean) / clip;
      w[e] = w[e] * (1 - rate * decay) - m[e];
    }
  }
};

// The same by the kernels, the weight lying in runs that follow each other.
struct Kernels {
  FactorShape shape;
  std::vector<int64_t> cuts;  // begins of runs, and the end
  Array w, m, rows, columns;
  int threads = 1;

  void step(const Array& g, int64_t t, double learning_rate, double decay, double beta1) {
    const int64_t n = g.size();
    std::vector<double> row_sums(static_cast<size_t>(shape.rows)),
        column_sums(static_cast<size_t>(shape.columns));
    std::vector<FactorRun> runs;
    std::vector<UpdateRange> ranges;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      runs.push_back({cuts[i], cuts[i + 1], cuts[i], shape.columns});
      ranges.push_back({cuts[i], cuts[i + 1], true, 0, cuts[i]});
    }
    double squares = 0, updates = 0;
    const StepNumbers numbers = {.learning_rate = learning_rate,
                                 .beta1 = beta1,
                                 .weight_decay = decay,
                                 .step = static_cast<double>(t)};
    const UpdateNumbers now = numbers.numbers();
    for (const FactorRun& s : runs)
      compute(FactorSumsArgs{g, s, now, kEpsilon, view_of(row_sums), view_of(column_sums)},
              threads);
    for (int64_t i = 0; i < n; ++i) squares += w.at(i) * w.at(i);
    compute(FactorMeansArgs{shape, now, 0.8, row_sums.data(), column_sums.data(), rows.as<float>(),
                            columns.as<float>()});
    Array row_scales(rows.shape()), column_scales(columns.shape());
    compute(FactorScalesArgs{shape, rows.as<float>(), columns.as<float>(), row_scales.as<float>(),
                             column_scales.as<float>()});
    const FactorScales scales = {shape.columns, row_scales.as<float>(), column_scales.as<float>()};
    for (const FactorRun& s : runs) compute(UpdateSquaresArgs{g, s, now, scales, &updates});
    const Update update = {
        .weights = w, .m = beta1 > 0 ? m.view() : TensorView(), .gradient = g, .ranges = ranges};
    compute(AdafactorArgs{update,
                          numbers.constants(),
                          now,
                          scales,
                          {&squares, &updates, static_cast<double>(n), kLeast, kClip}},
            threads);
  }
};

void expect_follows(FactorShape shape, const std::vector<int64_t>& cuts, double beta1) {
  const int64_t n = shape.rows * (shape.columns > 0 ? shape.columns : 1);
  const Array start = Array::random({n}, 1);
  Kernels k = {shape, cuts, start, Array({n}), Array({shape.rows}), Array({shape.columns})};
  Reference r = {shape, {}, {}, {}, std::vector<double>(static_cast<size_t>(n))};
  for (int64_t i = 0; i < n; ++i) r.w.push_back(start.at(i));
  r.row.resize(static_cast<size_t>(shape.rows));
  r.column.resize(static_cast<size_t>(shape.columns));
  for (int64_t t = 1; t <= 6; ++t) {
    Array g = Array::random({n}, 30 + static_cast<uint64_t>(t), DType::kF32,
                            1.0 / static_cast<double>(t));
    for (int64_t i = 0; i < (shape.columns > 0 ? shape.columns : 1); ++i) g.set(i, 0);  // a row
    k.step(g, t, 0.1, 0.05, beta1);
    r.step(g, t, 0.1, 0.05, beta1);
  }
  EXPECT_LT(distance(k.w, r.w), 2e-6);
  EXPECT_LT(distance(k.rows, r.row), 1e-6);
  if (shape.columns > 0) {
    EXPECT_LT(distance(k.columns, r.column), 1e-6);
  }
}

TEST(Adafactor, FollowsTheFormulaOverSteps) {
  for_every_target([] {
    for (const double beta1 : {0.0, 0.9}) {
      expect_follows({7, 19}, {0, 133}, beta1);
      expect_follows({7, 19}, {0, 5, 19, 57, 90, 133}, beta1);  // cuts within rows and between
      expect_follows({101, 0}, {0, 101}, beta1);
      expect_follows({101, 0}, {0, 64, 101}, beta1);
    }
  });
}

TEST(Adafactor, ThreadsDoNotChangeTheBits) {
  const FactorShape shape = {300, 211};
  const int64_t n = shape.rows * shape.columns;
  const Array g = Array::random({n}, 2);
  expect_same_for_any_threads([&](int threads) {
    Kernels k = {shape,      {0, 1000, n},        Array::random({n}, 1),
                 Array({n}), Array({shape.rows}), Array({shape.columns}),
                 threads};
    k.step(g, 1, 0.1, 0.05, 0);
    k.step(g, 2, 0.1, 0.05, 0);
    return k.w;
  });
}

}  // namespace
}  // namespace tessera::kernels
