#include "kernels/norm.h"

#include "base/error.h"
#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

struct Reference {
  std::vector<double> y, dx, dgain, dbias;
};

Reference reference(NormKind kind, const Array& x, const Array& gain, const Array& bias,
                    const Array& dy, double epsilon, double offset = 0) {
  const int64_t d = x.shape()[-1], n = x.size() / d;
  Reference r;
  r.dgain.resize(static_cast<size_t>(d));
  r.dbias.resize(static_cast<size_t>(d));
  for (int64_t row = 0; row < n; ++row) {
    double mean = 0, var = 0, mg = 0, mgx = 0;
    for (int64_t c = 0; c < d; ++c) mean += x.at(row * d + c) / static_cast<double>(d);
    if (kind == NormKind::kRms) mean = 0;
    for (int64_t c = 0; c < d; ++c) {
      var += std::pow(x.at(row * d + c) - mean, 2) / static_cast<double>(d);
    }
    const double rstd = 1 / std::sqrt(var + epsilon);
    const auto xh = [&](int64_t c) { return (x.at(row * d + c) - mean) * rstd; };
    const auto g = [&](int64_t c) { return dy.at(row * d + c) * (gain.at(c) + offset); };
    for (int64_t c = 0; c < d; ++c) {
      r.y.push_back(xh(c) * (gain.at(c) + offset) + bias.at(c));
      r.dgain[static_cast<size_t>(c)] += dy.at(row * d + c) * xh(c);
      r.dbias[static_cast<size_t>(c)] += dy.at(row * d + c);
      mg += g(c) / static_cast<double>(d);
      mgx += g(c) * xh(c) / static_cast<double>(d);
    }
    if (kind == NormKind::kRms) mg = 0;
    for (int64_t c = 0; c < d; ++c) r.dx.push_back(rstd * (g(c) - mg - xh(c) * mgx));
  }
  return r;
}

void compare(NormKind kind, int64_t n, int64_t d, DType t, DType sums = DType::kF32,
             bool unit_offset = false) {
  SCOPED_TRACE(fmt::format("rows {} of {}, {}", n, d, name_of(t)));
  const float epsilon = 1e-5f;
  const Array x = Array::random({n, d}, 1, t, 3), gain = Array::random({d}, 2, t);
  const Array bias = Array::random({d}, 3, t), dy = Array::random({n, d}, 4, t);
  Array y({n, d}, t), stats({n, 2}), dx({n, d}, t);
  Array dgain = Array::full({d}, 10, sums), dbias = Array::full({d}, 20, sums);
  compute(NormArgs{x,
                   {.kind = kind,
                    .epsilon = epsilon,
                    .outputs = {{gain, bias, y}},
                    .stats = stats,
                    .unit_offset = unit_offset}});
  compute(NormGradArgs{kind, x, stats, gain, dy, dx, false, dgain, dbias, unit_offset});
  Reference r = reference(kind, x, gain, bias, dy, 1e-5, unit_offset ? 1 : 0);
  for (double& g : r.dgain) g += 10;
  for (double& b : r.dbias) b += 20;
  EXPECT_LT(distance(y, r.y), tolerance(t));
  EXPECT_LT(distance(dx, r.dx), tolerance(t));
  EXPECT_LT(distance(dgain, r.dgain), tolerance(sums));
  EXPECT_LT(distance(dbias, r.dbias), tolerance(sums));
}

TEST(Norm, MatchesTheFormulaInAllSizes) {
  for_every_target([] {
    for (const DType t : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (const auto& [n, d] : {std::pair<int64_t, int64_t>{2, 5}, {3, 7}, {33, 64}, {70, 129}}) {
        compare(NormKind::kLayer, n, d, t);
        compare(NormKind::kRms, n, d, t);
        compare(NormKind::kLayer, n, d, t, t);
        compare(NormKind::kRms, n, d, t, DType::kF32, true);
      }
    }
  });
}

TEST(Norm, OffsetsMuchLargerThanTheDeviationAreHarmless) {
  Array x = Array::random({2, 96}, 5);
  for (int64_t i = 0; i < x.size(); ++i) x.set(i, 1000 + x.at(i));
  const Array gain = Array::full({96}, 1), bias = Array::full({96}, 0), y({2, 96});
  compute(NormArgs{x, {.epsilon = 1e-5f, .outputs = {{gain, {}, y}}, .stats = {}}});
  EXPECT_LT(distance(y, reference(NormKind::kLayer, x, gain, bias, x, 1e-5).y), 1e-4);
}

TEST(Norm, SumNormIsASumThenNorms) {
  for_every_target([] {
    for (const DType t : {DType::kF32, DType::kBF16, DType::kF16}) {
      const Shape s{5, 40};
      const Array a = Array::random(s, 1, t), b = Array::random(s, 2),
                  bias = Array::random({40}, 3);
      const Array gain1 = Array::random({40}, 4), gain2 = Array::random({40}, 5), out(s, t);
      const Array y1(s, t), y2(s), stats({5, 2}), z1(s, t), z2(s);
      const Norm both = {
          .epsilon = 1e-5f, .outputs = {{gain1, bias, y1}, {gain2, {}, y2}}, .stats = stats};
      compute(SumNormArgs{{{a, b}, {bias}, out}, both});
      std::vector<double> sum;
      for (int64_t i = 0; i < a.size(); ++i) sum.push_back(a.at(i) + b.at(i) + bias.at(i % 40));
      EXPECT_LT(distance(out, sum), tolerance(t));
      compute(NormArgs{out, {.epsilon = 1e-5f, .outputs = {{gain1, bias, z1}}, .stats = {}}});
      compute(NormArgs{out, {.epsilon = 1e-5f, .outputs = {{gain2, {}, z2}}, .stats = {}}});
      EXPECT_TRUE(y1.same_bits(z1));
      EXPECT_TRUE(y2.same_bits(z2));
    }
  });
}

TEST(Norm, GradientAccumulates) {
  const Array x = Array::random({9, 33}, 1), gain = Array::random({33}, 2), y({9, 33});
  const Array dy = Array::random({9, 33}, 3), stats({9, 2}), dx({9, 33}), dgain({33});
  Array added = Array::full({9, 33}, 0.5);
  compute(NormArgs{x, {.epsilon = 1e-5f, .outputs = {{gain, {}, y}}, .stats = stats}});
  compute(NormGradArgs{NormKind::kLayer, x, stats, gain, dy, dx, false, dgain, {}});
  compute(NormGradArgs{NormKind::kLayer, x, stats, gain, dy, added, true, dgain, {}});
  for (int64_t i = 0; i < dx.size(); ++i)
    EXPECT_FLOAT_EQ(added.as<float>()[i], 0.5f + dx.as<float>()[i]);
}

TEST(Norm, ThreadsDoNotChangeTheBits) {
  const int64_t n = 517, d = 200;
  const Array x = Array::random({n, d}, 1), gain = Array::random({d}, 2);
  const Array dy = Array::random({n, d}, 3);
  expect_same_for_any_threads([&](int threads) {
    Array y({n, d}), stats({n, 2}), dx({n, d}), grads({2 * d});
    const TensorView g = grads.view();
    compute(NormArgs{x, {.epsilon = 1e-5f, .outputs = {{gain, {}, y}}, .stats = stats}}, threads);
    compute(NormGradArgs{NormKind::kLayer,
                         x,
                         stats,
                         gain,
                         dy,
                         dx,
                         false,
                         {g.data, g.dtype, {d}},
                         {g.as<float>() + d, g.dtype, {d}}},
            threads);
    return grads;
  });
}

}  // namespace
}  // namespace tessera::kernels
