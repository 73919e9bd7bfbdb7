#include "kernels/gelu.h"

#include <numbers>

#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

double exact(GeluKind kind, double u) {
  if (kind == GeluKind::kErf) return 0.5 * u * std::erfc(-u / std::numbers::sqrt2);
  const double z = std::sqrt(2 / std::numbers::pi) * (u + 0.044715 * u * u * u);
  return u / (1 + std::exp(-2 * z));
}

double slope(GeluKind kind, double u) {
  if (kind == GeluKind::kErf) {
    return 0.5 * std::erfc(-u / std::numbers::sqrt2) +
           u * std::exp(-u * u / 2) / std::sqrt(2 * std::numbers::pi);
  }
  const double z = std::sqrt(2 / std::numbers::pi) * (u + 0.044715 * u * u * u);
  const double dz = std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * u * u);
  const double s = 1 / (1 + std::exp(-2 * z));
  return s + u * s * (1 - s) * 2 * dz;
}

TEST(Gelu, IsExactInBothTails) {
  for_every_target([] {
    for (const GeluKind kind : {GeluKind::kErf, GeluKind::kTanh}) {
      const int64_t n = 40001;
      Array x({1, n}), y({1, n}), dx({1, n});
      const Array dy = Array::full({1, n}, 1);
      for (int64_t i = 0; i < n; ++i) x.set(i, (static_cast<double>(i) - 20000) * 1e-3);
      compute(GeluArgs{kind, x, {}, y});
      compute(GeluGradArgs{kind, x, {}, dy, dx, {}});
      for (int64_t i = 0; i < n; ++i) {
        const double u = x.at(i), wanted = exact(kind, u), derivative = slope(kind, u);
        const double bound = std::abs(u) < 4 ? 3e-6 * std::abs(wanted) : 2e-7 * std::abs(u);
        EXPECT_LE(std::abs(y.at(i) - wanted), bound + 1e-38) << u;
        EXPECT_LE(std::abs(dx.at(i) - derivative), 4e-7) << u;
      }
    }
  });
}

TEST(Gelu, BiasAndItsGradientInAllSizesAndTypes) {
  for_every_target([] {
    for (const DType t : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (const auto& [n, d] : {std::pair<int64_t, int64_t>{1, 1}, {5, 17}, {67, 80}}) {
        const Array x = Array::random({n, d}, 1, t, 3), bias = Array::random({d}, 2, t);
        const Array dy = Array::random({n, d}, 3, t), y({n, d}, t), dx({n, d}, t);
        Array dbias = Array::full({d}, 1);
        std::vector<double> ys, dxs, dbs(static_cast<size_t>(d), 1);
        for (int64_t i = 0; i < x.size(); ++i) {
          const double u = x.at(i) + bias.at(i % d);
          ys.push_back(exact(GeluKind::kErf, u));
          dxs.push_back(dy.at(i) * slope(GeluKind::kErf, u));
          dbs[static_cast<size_t>(i % d)] += dxs.back();
        }
        compute(GeluArgs{GeluKind::kErf, x, bias, y});
        compute(GeluGradArgs{GeluKind::kErf, x, bias, dy, dx, dbias});
        EXPECT_LT(distance(y, ys), tolerance(t));
        EXPECT_LT(distance(dx, dxs), tolerance(t));
        EXPECT_LT(distance(dbias, dbs), 1e-6);
      }
    }
  });
}

TEST(Gelu, NotANumberStaysVisible) {
  Array x = Array::full({1, 40}, 1), y({1, 40});
  x.set(3, std::nan(""));
  x.set(39, std::nan(""));
  for (const GeluKind kind : {GeluKind::kErf, GeluKind::kTanh}) {
    compute(GeluArgs{kind, x, {}, y});
    EXPECT_TRUE(std::isnan(y.at(3)) && std::isnan(y.at(39)) && std::isfinite(y.at(4)));
  }
}

TEST(Gelu, ThreadsDoNotChangeTheBits) {
  const Array x = Array::random({700, 130}, 1), dy = Array::random({700, 130}, 2);
  expect_same_for_any_threads([&](int threads) {
    Array dx({700, 130}), dbias({130});
    compute(GeluGradArgs{GeluKind::kTanh, x, {}, dy, dx, dbias}, threads);
    return dbias;
  });
}

}  // namespace
}  // namespace tessera::kernels
