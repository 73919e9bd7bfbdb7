#include "kernels/gated_activation.h"

#include <algorithm>
#include <numbers>

#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

constexpr GateKind kKinds[] = {GateKind::kSilu, GateKind::kErf, GateKind::kTanh,
                               GateKind::kClamped};

double logistic(double u) { return 1 / (1 + std::exp(-u)); }

double act(GateKind kind, double g) {
  if (kind == GateKind::kSilu) return g * logistic(g);
  if (kind == GateKind::kErf) return 0.5 * g * std::erfc(-g / std::numbers::sqrt2);
  return g * logistic(2 * std::sqrt(2 / std::numbers::pi) * (g + 0.044715 * g * g * g));
}

double gated(GateKind kind, double g, double u) {
  if (kind != GateKind::kClamped) return act(kind, g) * u;
  const double gate = std::min(g, 7.0);
  return gate * logistic(1.702 * gate) * (std::clamp(u, -7.0, 7.0) + 1);
}

// The slopes by differences of a fine step: enough for every bound below.
constexpr double kStep = 1e-5;
double slope_by_gate(GateKind kind, double g, double u) {
  return (gated(kind, g + kStep, u) - gated(kind, g - kStep, u)) / (2 * kStep);
}
double slope_by_value(GateKind kind, double g, double u) {
  return (gated(kind, g, u + kStep) - gated(kind, g, u - kStep)) / (2 * kStep);
}

TEST(GatedActivation, SiluIsExactInBothTails) {
  for_every_target([] {
    const int64_t n = 20001;
    Array x({1, n, 2}), y({1, n}), dx({1, n, 2});
    const Array dy = Array::full({1, n}, 1);
    for (int64_t i = 0; i < n; ++i) {
      x.set(2 * i, (static_cast<double>(i) - 10000) * 4e-3);
      x.set(2 * i + 1, 1);
    }
    compute(GatedActivationArgs{GateKind::kSilu, x, y});
    compute(GatedActivationGradArgs{GateKind::kSilu, x, dy, dx});
    for (int64_t i = 0; i < n; ++i) {
      const double g = x.at(2 * i), wanted = act(GateKind::kSilu, g);
      EXPECT_LE(std::abs(y.at(i) - wanted), 4e-7 * std::abs(wanted) + 1e-38) << g;
      const double s = logistic(g), derivative = s + g * s * (1 - s);
      EXPECT_LE(std::abs(dx.at(2 * i) - derivative), 4e-7) << g;
      EXPECT_LE(std::abs(dx.at(2 * i + 1) - wanted), 4e-7 * std::abs(wanted) + 1e-38) << g;
    }
  });
}

TEST(GatedActivation, MatchesTheFormulaInAllSizesAndTypes) {
  for_every_target([] {
    for (const GateKind kind : kKinds)
      for (const DType t : {DType::kF32, DType::kBF16, DType::kF16})
        for (const auto& [n, m] : {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {5, 17}, {67, 80}}) {
          const Array x = Array::random({n, m, 2}, 1, t, 3), dy = Array::random({n, m}, 2, t);
          Array y({n, m}, t), dx({n, m, 2}, t);
          std::vector<double> ys, dxs;
          for (int64_t i = 0; i < n * m; ++i) {
            const double g = x.at(2 * i), u = x.at(2 * i + 1);
            ys.push_back(gated(kind, g, u));
            dxs.push_back(dy.at(i) * slope_by_gate(kind, g, u));
            dxs.push_back(dy.at(i) * slope_by_value(kind, g, u));
          }
          compute(GatedActivationArgs{kind, x, y});
          compute(GatedActivationGradArgs{kind, x, dy, dx});
          EXPECT_LT(distance(y, ys), tolerance(t));
          EXPECT_LT(distance(dx, dxs), tolerance(t));
        }
  });
}

// Of 20 pairs, some are beyond the limits of the gate, of the value, or of both.
TEST(GatedActivation, TheClampedKindIsFlatBeyondItsLimits) {
  for_every_target([] {
    const int64_t n = 20;
    Array x({1, n, 2}), y({1, n}), dx({1, n, 2});
    const Array dy = Array::full({1, n}, 1);
    const double gates[] = {-9, 6.5, 7.5, 100}, values[] = {-30, -6.5, 0, 7, 8};
    for (int64_t i = 0; i < n; ++i) {
      x.set(2 * i, gates[i % 4]);
      x.set(2 * i + 1, values[i / 4]);
    }
    compute(GatedActivationArgs{GateKind::kClamped, x, y});
    compute(GatedActivationGradArgs{GateKind::kClamped, x, dy, dx});
    for (int64_t i = 0; i < n; ++i) {
      const double g = gates[i % 4], u = values[i / 4], wanted = gated(GateKind::kClamped, g, u);
      EXPECT_LE(std::abs(y.at(i) - wanted), 1e-6 * std::abs(wanted) + 1e-12) << g << " " << u;
      EXPECT_EQ(dx.at(2 * i) == 0, g > 7) << g << " " << u;
      EXPECT_EQ(dx.at(2 * i + 1) == 0, std::abs(u) > 7) << g << " " << u;
    }
  });
}

TEST(GatedActivation, TheGradientMayLieOverTheInput) {
  for (const DType t : {DType::kF32, DType::kBF16, DType::kF16}) {
    Array x = Array::random({9, 21, 2}, 1, t, 3);
    const Array dy = Array::random({9, 21}, 2, t);
    Array apart({9, 21, 2}, t);
    compute(GatedActivationGradArgs{GateKind::kSilu, x, dy, apart});
    compute(GatedActivationGradArgs{GateKind::kSilu, x, dy, x});
    EXPECT_TRUE(x.same_bits(apart));
  }
}

TEST(GatedActivation, NotANumberStaysVisible) {
  for (const GateKind kind : kKinds)
    for (const int64_t at : {6, 7, 78, 79}) {
      Array x = Array::full({1, 40, 2}, 1), y({1, 40});
      x.set(at, std::nan(""));
      compute(GatedActivationArgs{kind, x, y});
      for (int64_t i = 0; i < 40; ++i) EXPECT_EQ(std::isnan(y.at(i)), i == at / 2) << at;
    }
}

}  // namespace
}  // namespace tessera::kernels
