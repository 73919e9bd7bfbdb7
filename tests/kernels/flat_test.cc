// Kernels over flat ranges: sums of squares, conversions, constants, initial values.
#include <algorithm>
#include <limits>

#include "base/philox.h"
#include "kernels/elementwise.h"
#include "kernels/gradient_norm.h"
#include "kernels/initialize.h"
#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

double sum_of_squares(const Array& x, int threads = 1) {
  double sum = 0;
  compute(SquaresArgs{x, &sum}, threads);
  return sum;
}

int64_t first_non_finite(const Array& x) {
  int64_t first = 0;
  compute(FirstNonFiniteArgs{x, &first});
  return first;
}

TEST(Squares, SumsInDoubleWithTheSameBitsEverywhere) {
  const Array x = Array::random({50001}, 1);
  double expected = 0;
  for (int64_t i = 0; i < x.size(); ++i) expected += x.at(i) * x.at(i);
  const double first = sum_of_squares(x);
  EXPECT_NEAR(first, expected, 1e-12 * expected);
  for_every_target([&] {
    for (const int threads : {1, 2}) EXPECT_EQ(sum_of_squares(x, threads), first);
  });
}

TEST(Squares, NonFiniteIsSeenAndFound) {
  Array x = Array::full({9000}, 3e38);
  EXPECT_TRUE(std::isfinite(sum_of_squares(x)));
  EXPECT_EQ(first_non_finite(x), -1);
  x.set(8999, std::numeric_limits<double>::infinity());
  EXPECT_EQ(first_non_finite(x), 8999);
  x.set(77, std::nan(""));
  EXPECT_FALSE(std::isfinite(sum_of_squares(x)));
  for_every_target([&] { EXPECT_EQ(first_non_finite(x), 77); });
}

TEST(Cast, RoundsToNearestEven) {
  for_every_target([] {
    const int64_t n = 65536 + 3;
    Array x({n});
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t bits =
          static_cast<uint32_t>(i) * 65521u + 0x8000u * static_cast<uint32_t>(i % 3);
      x.as<float>()[i] = std::bit_cast<float>(bits);
    }
    const Array low({n}, DType::kBF16), back({n});
    compute(CastArgs{x, low});
    compute(CastArgs{low, back});
    for (int64_t i = 0; i < n; ++i) {
      const BF16 wanted(x.as<float>()[i]);
      ASSERT_EQ(low.as<BF16>()[i].bits, wanted.bits) << i;
      const auto widened = std::bit_cast<uint32_t>(back.as<float>()[i]);
      ASSERT_EQ(widened, static_cast<uint32_t>(wanted.bits) << 16);
    }
  });
}

// Every half, and floats between two of them, as base/dtype.h has it.
TEST(Cast, HalvesAreThoseOfTheScalarConversion) {
  for_every_target([] {
    const int64_t n = 65536;
    Array halves({n}, DType::kF16), wide({n}), between({n}), again({n}, DType::kF16);
    for (int64_t i = 0; i < n; ++i) halves.as<F16>()[i].bits = static_cast<uint16_t>(i);
    compute(CastArgs{halves, wide});
    for (int64_t i = 0; i < n; ++i) {
      const auto wanted = static_cast<float>(halves.as<F16>()[i]);
      const float found = wide.as<float>()[i];
      if (std::isnan(wanted)) {
        ASSERT_TRUE(std::isnan(found)) << i;
      } else {
        ASSERT_EQ(found, wanted) << i;
      }
      // Up to three quarters of the way to the next half, ties among them.
      const float step = std::ldexp(static_cast<float>(i % 4) * 0.25f, -24);
      between.as<float>()[i] =
          wanted +
          (std::abs(wanted) < 0x1p-14f ? step : wanted * 0x1p-11f * static_cast<float>(i % 3));
    }
    compute(CastArgs{between, again});
    for (int64_t i = 0; i < n; ++i)
      ASSERT_EQ(again.as<F16>()[i].bits, F16(between.as<float>()[i]).bits)
          << i << ": " << between.as<float>()[i];
  });
}

TEST(Fill, ClearsAndFills) {
  Array x = Array::random({1001}, 1), low({1001}, DType::kBF16);
  fill(x, 2.5f, 2);
  fill(low, -1.0f, 2);
  for (int64_t i = 0; i < 1001; ++i) EXPECT_TRUE(x.at(i) == 2.5 && low.at(i) == -1);
  compute(ClearArgs{x});
  for (int64_t i = 0; i < 1001; ++i) EXPECT_EQ(x.at(i), 0);
}

TEST(Initialize, IsAFunctionOfTheGlobalElement) {
  const Array whole({1000});
  initialize_normal(whole, {.key = 42, .deviation = 0.5}, 2);
  for (const int64_t first : {1, 2, 3, 4, 517}) {
    const Array part({100});
    initialize_normal(part, {.key = 42, .first = first, .deviation = 0.5}, 2);
    for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(part.at(i), whole.at(first + i));
  }
  for (int64_t i = 0; i < 1000; i += 4) {
    const PhiloxBlock b = Philox{42}.block(static_cast<uint64_t>(i / 4));
    EXPECT_NEAR(whole.at(i), 0.5 * Philox::normal(b[0], b[1]), 1e-6);
    EXPECT_NEAR(whole.at(i + 2), 0.5 * Philox::normal(b[2], b[3]), 1e-6);
    const double sine = 0.5 * Philox::normal(b[0], b[1] - (1u << 30));
    EXPECT_NEAR(whole.at(i + 1), sine, 1e-6);
  }
}

TEST(Initialize, IsNormal) {
  const int64_t n = 1'000'000;
  const auto count = static_cast<double>(n);
  const Array x({n});
  initialize_normal(x, {.key = 7, .mean = 1, .deviation = 2}, 2);
  std::vector<double> z;
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0, neighbors = 0;
  for (int64_t i = 0; i < n; ++i) {
    z.push_back((x.at(i) - 1) / 2);
    m1 += z.back() / count;
    m2 += z.back() * z.back() / count;
    m3 += std::pow(z.back(), 3) / count;
    m4 += std::pow(z.back(), 4) / count;
    if (i > 0) neighbors += z.back() * z[z.size() - 2] / count;
  }
  // Four standard errors.
  EXPECT_NEAR(m1, 0, 4e-3);
  EXPECT_NEAR(m2, 1, 4 * std::sqrt(2) * 1e-3);
  EXPECT_NEAR(m3, 0, 4 * std::sqrt(15) * 1e-3);
  EXPECT_NEAR(m4, 3, 4 * std::sqrt(96) * 1e-3);
  EXPECT_NEAR(neighbors, 0, 4e-3);
  for (const double tail : {2.0, 3.0, 4.0}) {
    const double expected = count * std::erfc(tail / std::sqrt(2.0));
    const auto beyond =
        std::count_if(z.begin(), z.end(), [&](double v) { return std::abs(v) > tail; });
    EXPECT_NEAR(static_cast<double>(beyond), expected, 4 * std::sqrt(expected)) << tail;
  }
  // Kolmogorov and Smirnov: above 1.63 in one of a hundred keys.
  std::sort(z.begin(), z.end());
  double distance = 0;
  for (size_t i = 0; i < z.size(); ++i) {
    const double below = 0.5 * std::erfc(-z[i] / std::sqrt(2.0));
    distance = std::max({distance, below - static_cast<double>(i) / count,
                         static_cast<double>(i + 1) / count - below});
  }
  EXPECT_LT(distance * std::sqrt(count), 1.63);
}

TEST(Initialize, EveryInstructionSetGivesTheSameBits) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    Array first({100'003}, type);
    initialize_normal(first, {.key = 5, .first = 77, .mean = 0.1, .deviation = 0.02}, 2);
    for_every_target([&] {
      Array again({100'003}, type);
      initialize_normal(again, {.key = 5, .first = 77, .mean = 0.1, .deviation = 0.02}, 2);
      EXPECT_TRUE(again.same_bits(first));
    });
  }
}

TEST(Initialize, ThreadsDoNotChangeTheBits) {
  expect_same_for_any_threads([](int threads) {
    Array x({30001}, DType::kBF16);
    initialize_normal(x, {.key = 3}, threads);
    return x;
  });
}

}  // namespace
}  // namespace tessera::kernels
