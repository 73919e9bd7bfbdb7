#include "kernels/rotary.h"

#include <algorithm>
#include <numbers>

#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kB = 2, kT = 9, kKv = 3;

std::vector<double> turned(const Array& qkv, const Array& positions, int64_t dims, double base) {
  const int64_t slots = qkv.shape()[3], d = qkv.shape()[4];
  std::vector<double> out;
  for (int64_t i = 0; i < qkv.size(); ++i) {
    const int64_t c = i % d, slot = i / d % slots, token = i / (d * slots * kKv), half = dims / 2;
    if (c >= dims || slot + 1 == slots) {
      out.push_back(qkv.at(i));
      continue;
    }
    const double frequency =
        std::pow(base, -2.0 * static_cast<double>(c % half) / static_cast<double>(dims));
    const double angle = positions.at(token) * frequency;
    const double other = c < half ? -qkv.at(i + half) : qkv.at(i - half);
    out.push_back(qkv.at(i) * std::cos(angle) + other * std::sin(angle));
  }
  return out;
}

TEST(Rotary, TurnsQueriesAndKeysAndLeavesTheRest) {
  for_every_target([] {
    for (const DType t : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (const int64_t dims : {2, 6, 8, 16, 32, 64, 80}) {
        const int64_t d = dims <= 64 ? 64 : 80, slots = dims == 8 ? 5 : 3;
        Array qkv = Array::random({kB, kT, kKv, slots, d}, 1, t), positions({kB, kT}, DType::kI32);
        for (int64_t i = 0; i < positions.size(); ++i)
          positions.set(i, static_cast<double>(i % 7 + 3));
        const std::vector<double> expected = turned(qkv, positions, dims, 10000);
        const Rotary r{.dims = dims};
        compute(RotaryArgs{qkv, positions, r});
        EXPECT_LT(distance(qkv, expected), tolerance(t)) << dims;
      }
    }
  });
}

// What a dimension of the frequency f turns by with LLaMA 3.1's scale, in words: slow ones are
// lowered by the factor, fast ones stay, and between the two lies a line.
TEST(Rotary, ScaleLowersSlowFrequencies) {
  constexpr int64_t kDims = 64, kHalf = 32;
  constexpr double kBase = 500000, kFactor = 8, kContext = 8192;
  Array qkv({1, 1, 1, 3, kDims}), positions({1, 1}, DType::kI32);
  for (int64_t i = 0; i < kHalf; ++i) qkv.set(i, 1);  // the first query: (1, 0) in every pair
  positions.set(0, 1);
  Rotary r{.dims = kDims, .base = kBase};
  r.scale = {RotaryScaling::kLlama3, kFactor, 1, 4, 8192};
  compute(RotaryArgs{qkv, positions, r});
  int slow = 0, fast = 0, between = 0;
  for (int64_t i = 0; i < kHalf; ++i) {
    const double f = std::pow(kBase, -static_cast<double>(i) / kHalf);
    const double turns = kContext * f / (2 * std::numbers::pi);
    const double share = std::clamp((turns - 1) / 3, 0.0, 1.0);
    const double wanted = f * (share + (1 - share) / kFactor);
    (share == 0 ? slow : share == 1 ? fast : between) += 1;
    EXPECT_NEAR(std::atan2(qkv.at(kHalf + i), qkv.at(i)), wanted, 1e-6 * wanted) << i;
  }
  EXPECT_TRUE(slow > 5 && fast > 5 && between > 1) << slow << " " << fast << " " << between;
}

// Frequencies that transformers 5.23 gives for a head of 16, base 10,000 and an original context
// of 64.
TEST(Rotary, FrequenciesAreThoseOfTheReference) {
  const std::vector<double> dividers = {1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7};
  const std::pair<RotaryScale, std::vector<double>> cases[] = {
      {{.kind = RotaryScaling::kLinear, .factor = 8},
       {0.125, 0.0395284708, 0.0125, 0.00395284708, 0.00125, 0.000395284708, 0.000125,
        3.95284708e-05}},
      {{RotaryScaling::kLlama3, 8, 1, 4, 64},
       {1, 0.244384587, 0.0130422562, 0.00395284733, 0.00124999997, 0.000395284733, 0.000125000006,
        3.95284733e-05}},
      {{RotaryScaling::kYarn, 8, 1, 32, 64},
       {1, 0.223994657, 0.0416666642, 0.00395284733, 0.00124999997, 0.000395284733, 0.000125000006,
        3.95284733e-05}},
      {{RotaryScaling::kYarn, 8, 1, 32, 64, false},
       {1, 0.178976148, 0.0131944576, 0.00395284733, 0.00124999997, 0.000395284733, 0.000125000006,
        3.95284733e-05}},
      {{RotaryScaling::kLongrope, 8, 1, 4, 64, true, dividers},
       {1, 0.287479758, 0.0833333358, 0.0243252143, 0.00714285718, 0.00210818532, 0.000624999986,
        0.000186016332}}};
  for (const auto& [scale, wanted] : cases) {
    Rotary r{.dims = 16};
    r.scale = scale;
    for (int64_t i = 0; i < 8; ++i)
      EXPECT_NEAR(rotary_frequency(r, i), wanted[static_cast<size_t>(i)],
                  2e-7 * wanted[static_cast<size_t>(i)])
          << static_cast<int>(scale.kind) << " " << i;
  }
}

TEST(Rotary, MagnitudeMultipliesWhatTurns) {
  const Array before = Array::random({kB, kT, kKv, 3, 16}, 2);
  Array plain = before, longer = before, positions({kB, kT}, DType::kI32);
  for (int64_t i = 0; i < positions.size(); ++i) positions.set(i, static_cast<double>(i));
  Rotary r{.dims = 8};
  compute(RotaryArgs{plain, positions, r});
  r.magnitude = 1.25f;
  compute(RotaryArgs{longer, positions, r});
  for (int64_t i = 0; i < before.size(); ++i) {
    const bool turns = i % 16 < 8 && i / 16 % 3 < 2;
    EXPECT_NEAR(longer.at(i), plain.at(i) * (turns ? 1.25 : 1), 1e-6) << i;
  }
}

TEST(Rotary, InverseTurnsBack) {
  Array qkv = Array::random({kB, kT, kKv, 3, 32}, 2), positions({kB, kT}, DType::kI32);
  for (int64_t i = 0; i < positions.size(); ++i) positions.set(i, static_cast<double>(100 * i));
  std::vector<double> before;
  for (int64_t i = 0; i < qkv.size(); ++i) before.push_back(qkv.at(i));
  Rotary r{.dims = 32};
  compute(RotaryArgs{qkv, positions, r});
  EXPECT_GT(distance(qkv, before), 0.1);
  r.inverse = true;
  compute(RotaryArgs{qkv, positions, r});
  EXPECT_LT(distance(qkv, before), 1e-6);
}

}  // namespace
}  // namespace tessera::kernels
