// Muon against a worked example in fp64 and against plain loops in double, whole and cut into the
// ranges that ranks have.
#include "kernels/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/newton_schulz.h"
#include "tests/kernels/array.h"
#include "tests/kernels/update_step.h"

namespace tessera::kernels {
namespace {

using Matrix = std::vector<double>;  // row-major

Matrix product(const Matrix& a, const Matrix& b, int64_t m, int64_t k, int64_t n) {
  Matrix c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t x = 0; x < k; ++x)
        c[static_cast<size_t>(i * n + j)] +=
            a[static_cast<size_t>(i * k + x)] * b[static_cast<size_t>(x * n + j)];
  return c;
}

Matrix transposed(const Matrix& a, int64_t rows, int64_t columns) {
  Matrix t(a.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      t[static_cast<size_t>(j * rows + i)] = a[static_cast<size_t>(i * columns + j)];
  return t;
}

// The iterations by their definition, in double.
Matrix reference(const NewtonSchulzShape& s, Matrix x) {
  if (s.rows > s.columns) {
    NewtonSchulzShape wide = s;
    std::swap(wide.rows, wide.columns);
    return transposed(reference(wide, transposed(x, s.rows, s.columns)), s.columns, s.rows);
  }
  double squares = 0;
  for (const double v : x) squares += v * v;
  for (double& v : x) v /= std::max(std::sqrt(squares), 1e-7);
  for (int64_t i = 0; i < s.steps; ++i) {
    const NewtonSchulzStep n = newton_schulz_step(s.coefficients, i);
    const Matrix a = product(x, transposed(x, s.rows, s.columns), s.rows, s.columns, s.rows);
    const Matrix a2 = product(a, a, s.rows, s.rows, s.rows);
    Matrix b(a.size());
    for (size_t e = 0; e < b.size(); ++e) b[e] = n.b * a[e] + n.c * a2[e];
    const Matrix bx = product(b, x, s.rows, s.rows, s.columns);
    for (size_t e = 0; e < x.size(); ++e) x[e] = n.a * x[e] + bx[e];
  }
  return x;
}

// Replaces the matrices by the kernels.
void orthogonalize(const NewtonSchulzShape& shape, const TensorView& x, int threads = 1) {
  const CpuBackend backend(read_cpu_features(), threads);
  const OrthogonalMatrices iterations(shape, backend);
  const auto workspace = host_arena("workspace", iterations.workspace_bytes());
  iterations.run({.workspace = workspace->data(), .threads = threads}, x.data);
}

Matrix doubles_of(const Array& a) {
  Matrix m;
  for (int64_t i = 0; i < a.size(); ++i) m.push_back(a.at(i));
  return m;
}

Array array_of(const Matrix& m, DType type = DType::kF32) {
  Array a({static_cast<int64_t>(m.size())}, type);
  for (size_t i = 0; i < m.size(); ++i) a.set(static_cast<int64_t>(i), m[i]);
  return a;
}

const Matrix kFirst = {1, 2, -1, 0.5, -1.5, 3}, kSecond = {-0.5, 1, 2, 1, 0.25, -0.75};

// A weight [rows, columns], in ranges that follow each other.
struct Weight {
  NewtonSchulzShape shape;
  std::vector<int64_t> cuts;  // begins of ranges, and the end
  Array w, m;
  UpdateScale scale = UpdateScale::kSpectral;
  bool nesterov = true;
  int threads = 1;
  RowClip clip = {};

  void step(const Array& g, const StepNumbers& s) {
    std::vector<UpdateRange> ranges;
    for (size_t i = 0; i + 1 < cuts.size(); ++i)
      ranges.push_back({cuts[i], cuts[i + 1], true, 0, cuts[i]});
    const Array x({w.size()}, shape.dtype);
    compute(DirectionArgs{g, m, ranges, &s.scale, s.beta1, nesterov, x}, threads);
    orthogonalize(shape, x.view(), threads);
    MuonArgs args;
    args.update = {.weights = w, .m = m, .gradient = g, .ranges = ranges};
    args.constants = s.constants();
    args.numbers = s.numbers();
    args.directions = x;
    args.direction_scale = update_scale(scale, shape.rows, shape.columns);
    args.clip = clip;
    compute(args, threads);
  }
};

// Computed in fp64 from the formulas of kernels/muon.h, for rate 0.02, decay 0.1 and momentum 0.95.
TEST(Muon, WorkedExample) {
  const StepNumbers s = {.learning_rate = 0.02, .beta1 = 0.95, .weight_decay = 0.1};
  struct Case {
    UpdateScale scale;
    Matrix first, second;
  };
  const Case cases[] = {{UpdateScale::kSpectral,
                         {0.09543012145384684, -0.2047049386057212, 0.298681132664934,
                          0.3966515788782649, 0.49937562639203503, -0.6039130349679722},
                         {0.09535780835788253, -0.209378355353814, 0.29404288281293217,
                          0.3915997000802507, 0.4999450711849817, -0.6048872165811978}},
                        {UpdateScale::kShape,
                         {0.08718524722526252, -0.21433668839104822, 0.29732480875294004,
                          0.3918433418967886, 0.5000843399927808, -0.6135600605756736},
                         {0.08735309286680912, -0.22858087161608415, 0.28506512145578367,
                          0.37876620625165924, 0.5036111633585192, -0.6186318540707582}}};
  for (const Case& c : cases) {
    Weight w = {{1, 2, 3}, {0, 6}, array_of({0.1, -0.2, 0.3, 0.4, 0.5, -0.6}), Array({6}), c.scale};
    w.step(array_of(kFirst), s);
    EXPECT_LT(distance(w.w, c.first), 1e-6);
    EXPECT_LT(distance(w.m, Matrix{0.05, 0.1, -0.05, 0.025, -0.075, 0.15}), 1e-6);
    w.step(array_of(kSecond), s);
    EXPECT_LT(distance(w.w, c.second), 1e-6);
    EXPECT_LT(distance(w.m, Matrix{0.0225, 0.145, 0.0525, 0.07375, -0.05875, 0.105}), 1e-6);
  }
}

// polar_express cancels in its first step: in f32 its result is 2e-6 off whatever computes it.
TEST(Muon, IterationsOfTheWorkedExample) {
  const std::pair<NewtonSchulzCoefficients, Matrix> cases[] = {
      {NewtonSchulzCoefficients::kSimple,
       {0.6307377196456684, 0.73683462927343, 0.10375941437940084, 0.3678329408246251,
        -0.054217202438061385, 0.7380033768976109}},
      {NewtonSchulzCoefficients::kQuintic,
       {0.5894444829102179, 0.7892299236720774, -0.04392182390251759, 0.3336881456699441,
        -0.22174635271311927, 0.9110835560042674}},
      {NewtonSchulzCoefficients::kPolarExpress,
       {0.6639745681466959, 0.8745952071912768, -0.029279067403736314, 0.37732267698355965,
        -0.2252601727464485, 0.9945450604154347}}};
  for (const auto& [coefficients, expected] : cases) {
    const Array x = array_of(kFirst);
    orthogonalize({1, 2, 3, DType::kF32, 5, coefficients}, x);
    const double bound = coefficients == NewtonSchulzCoefficients::kPolarExpress ? 5e-6 : 1e-6;
    EXPECT_LT(distance(x, expected), bound) << static_cast<int>(coefficients);
    const Array t = array_of(transposed(kFirst, 2, 3));
    orthogonalize({1, 3, 2, DType::kF32, 5, coefficients}, t);
    EXPECT_LT(distance(t, transposed(expected, 2, 3)), bound) << static_cast<int>(coefficients);
  }
}

TEST(Muon, IterationsFollowTheDefinition) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{17, 40}, {40, 17}, {24, 24}})
    for (const auto coefficients :
         {NewtonSchulzCoefficients::kSimple, NewtonSchulzCoefficients::kQuintic,
          NewtonSchulzCoefficients::kPolarExpress})
      for (const int64_t steps : {1, 5, 9}) {
        const NewtonSchulzShape shape = {1, rows, columns, DType::kF32, steps, coefficients};
        const Array x = Array::random({rows * columns}, 3);
        const Matrix expected = reference(shape, doubles_of(x));
        orthogonalize(shape, x);
        EXPECT_LT(distance(x, expected), 1e-5) << rows << " x " << columns << ", " << steps;
      }
}

TEST(Muon, Bf16IterationsAreNearThoseInF32) {
  const NewtonSchulzShape shape = {1, 48, 80, DType::kBF16};
  const Array x = Array::random({48 * 80}, 3, DType::kBF16);
  const Matrix expected = reference(shape, doubles_of(x));
  orthogonalize(shape, x);
  EXPECT_LT(distance(x, expected), 0.05);
  EXPECT_GT(distance(x, expected), 1e-5);  // the GEMMs round
}

TEST(Muon, EachMatrixIsItsOwn) {
  const int64_t n = 6 * 10;
  Array all = Array::random({3 * n}, 5);
  for (int64_t i = 0; i < n; ++i) all.set(n + i, 0);  // the second one is zero
  Matrix expected;
  for (int64_t k = 0; k < 3; ++k) {
    Array one({n});
    for (int64_t i = 0; i < n; ++i) one.set(i, all.at(k * n + i));
    orthogonalize({1, 6, 10}, one);
    const Matrix m = doubles_of(one);
    expected.insert(expected.end(), m.begin(), m.end());
  }
  orthogonalize({3, 6, 10}, all);
  for (int64_t i = 0; i < 3 * n; ++i) EXPECT_EQ(all.at(i), expected[static_cast<size_t>(i)]) << i;
  for (int64_t i = 0; i < n; ++i) EXPECT_EQ(all.at(n + i), 0) << i;
}

TEST(Muon, ScaleOfTheGradientDoesNotMatterInTheFirstStep) {
  StepNumbers s = {.learning_rate = 0.02, .beta1 = 0.95};
  const Array g = Array::random({60}, 1);
  Weight a = {{1, 6, 10}, {0, 60}, Array({60}), Array({60})}, b = a;
  b.w = Array({60});
  b.m = Array({60});
  a.step(g, s);
  s.scale = 1.0 / 1024;
  b.step(g, s);
  EXPECT_LT(distance(a.w, doubles_of(b.w)), 1e-6);
  EXPECT_GT(std::abs(a.w.at(0)), 1e-4);
}

TEST(Muon, ASkippedStepChangesNothing) {
  const StepNumbers s = {.learning_rate = 0.02, .beta1 = 0.95, .skip = 1};
  Weight w = {{1, 6, 10}, {0, 60}, Array::random({60}, 2), Array::random({60}, 3)};
  const Matrix before = doubles_of(w.w), moment = doubles_of(w.m);
  w.step(Array::random({60}, 1), s);
  EXPECT_EQ(doubles_of(w.w), before);
  EXPECT_EQ(doubles_of(w.m), moment);
}

// Heads of 4 rows: rows 0 and 1 by the root of the factor, row 3 by the whole factor. The second
// head is within the limit.
TEST(Muon, RowsOfQueriesAndKeysAreMultipliedByTheFactorOfTheirHead) {
  const int64_t columns = 10, heads = 3, n = heads * 4 * columns;
  const StepNumbers s = {.learning_rate = 0.02, .beta1 = 0.9, .weight_decay = 0.1};
  const Array scores = array_of({8, 2, 3});
  const RowClip clip = {.scores = scores.view().f32(),
                        .limit = 2,
                        .rows = 4,
                        .columns = columns,
                        .count = 2,
                        .ranges = {{0, 2, 0.5}, {3, 4, 1}}};
  const auto run = [&](const RowClip& c, const std::vector<int64_t>& cuts) {
    Weight w = {{1, heads * 4, columns}, cuts, Array::random({n}, 1), Array({n})};
    w.threads = 2;
    w.clip = c;
    w.step(Array::random({n}, 2), s);
    return std::pair(doubles_of(w.w), doubles_of(w.m));
  };
  const auto [plain, plain_m] = run(RowClip(), {0, n});
  const auto [clipped, m] = run(clip, {0, n});
  EXPECT_EQ(m, plain_m);
  const double factors[] = {2.0 / 8, 1, 2.0 / 3};
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = i / columns % 4;
    const double factor = factors[i / (4 * columns)];
    const double expected = row < 2 ? std::sqrt(factor) : (row == 3 ? factor : 1);
    const double w = plain[static_cast<size_t>(i)];
    EXPECT_NEAR(clipped[static_cast<size_t>(i)], expected * w, 1e-7 * std::abs(w) + 1e-9) << i;
  }
  EXPECT_EQ(clipped, run(clip, {0, 7, 25, 31, 88, 101, n}).first);
}

TEST(Muon, CutsAndThreadsDoNotChangeTheBits) {
  const int64_t rows = 96, columns = 200, n = rows * columns;
  const StepNumbers s = {.learning_rate = 0.02, .beta1 = 0.9, .weight_decay = 0.1};
  const auto run = [&](const std::vector<int64_t>& cuts, int threads) {
    Weight w = {{1, rows, columns}, cuts, Array::random({n}, 1), Array({n})};
    w.nesterov = false;
    w.threads = threads;
    for (uint64_t t = 2; t < 5; ++t) w.step(Array::random({n}, t), s);
    return doubles_of(w.w);
  };
  const Matrix whole = run({0, n}, 1);
  EXPECT_EQ(whole, run({0, 5, 200, 777, 1001, n}, 1));
  EXPECT_EQ(whole, run({0, 5, 200, 777, 1001, n}, 2));
}

}  // namespace
}  // namespace tessera::kernels
