#include "kernels/fp8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/matmul.h"

namespace tessera::kernels {
namespace {

constexpr Fp8 kFormats[] = {Fp8::kE4M3, Fp8::kE5M2};

// All numbers of a format that are not negative, by rising code: from the definition.
std::vector<float> numbers_of(Fp8 format) {
  const Fp8Format f = format_of(format);
  std::vector<float> all;
  for (int code = 0; all.empty() || all.back() < f.most; ++code) {
    const int exponent = code >> f.mantissa, fraction = code & ((1 << f.mantissa) - 1);
    const double significand = fraction / std::ldexp(1.0, f.mantissa) + (exponent == 0 ? 0.0 : 1.0);
    all.push_back(static_cast<float>(
        std::ldexp(significand, exponent == 0 ? f.least_exponent : exponent - f.bias)));
  }
  return all;
}

TEST(Fp8, TheNumbersOfTheFormats) {
  const std::vector<float> e4m3 = numbers_of(Fp8::kE4M3), e5m2 = numbers_of(Fp8::kE5M2);
  EXPECT_EQ(e4m3.size(), 0x7fu);  // 0x7f is the NaN
  EXPECT_EQ(e4m3.back(), 448.0f);
  EXPECT_EQ(e4m3[1], std::ldexp(1.0f, -9));
  EXPECT_EQ(e5m2.size(), 0x7cu);  // 0x7c is infinite
  EXPECT_EQ(e5m2.back(), 57344.0f);
  EXPECT_EQ(e5m2[1], std::ldexp(1.0f, -16));
}

TEST(Fp8, RoundsToTheNearestAndTiesToEven) {
  for (const Fp8 f : kFormats) {
    const std::vector<float> all = numbers_of(f);
    for (size_t i = 0; i + 1 < all.size(); ++i) {
      const float low = all[i], high = all[i + 1], middle = (low + high) / 2;
      const float even = i % 2 == 0 ? low : high;
      for (const float sign : {1.0f, -1.0f}) {
        EXPECT_EQ(nearest_fp8(sign * low, f), sign * low);
        EXPECT_EQ(nearest_fp8(sign * middle, f), sign * even) << middle;
        EXPECT_EQ(nearest_fp8(sign * std::nextafter(middle, 0.0f), f), sign * low);
        EXPECT_EQ(nearest_fp8(sign * std::nextafter(middle, high), f), sign * high);
      }
    }
    EXPECT_EQ(nearest_fp8(2 * all.back(), f), all.back());
    EXPECT_TRUE(std::signbit(nearest_fp8(-0.0f, f)));
  }
}

TEST(Fp8, TheLargestFitsAndItsDoubleDoesNot) {
  for (const Fp8 f : kFormats) {
    const float most = format_of(f).most;
    for (const float amax :
         {1.0f, 1.75f, std::nextafter(1.75f, 2.0f), 3e-7f, 448.0f, 57344.0f, 1e30f, 0.1f, 1e-30f}) {
      const int k = fp8_shift(amax, f);
      EXPECT_LE(std::ldexp(amax, k), most) << amax;
      EXPECT_GT(std::ldexp(amax, k + 1), most) << amax;
    }
    EXPECT_EQ(fp8_shift(0, f), 0);
    EXPECT_EQ(fp8_shift(std::numeric_limits<float>::denorm_min(), f), 126);
  }
}

std::vector<float> some(int64_t n, double scale) {
  std::vector<float> x;
  for (int64_t i = 0; i < n; ++i)
    x.push_back(static_cast<float>(scale * std::sin(0.37 * static_cast<double>(i * i))));
  return x;
}

TEST(Fp8, AnOperandIsScaledByItsOwnLargest) {
  for (const Fp8 f : kFormats)
    for (const double scale : {1.0, 1e-8, 3e5}) {
      const std::vector<float> x = some(40'000, scale);
      std::vector<float> y(x.size());
      round_to_fp8(x.data(), DType::kF32, std::ssize(x), f, y.data(), 2);
      float amax = 0;
      for (const float v : x) amax = std::max(amax, std::fabs(v));
      const int k = fp8_shift(amax, f);
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(y[i], std::ldexp(nearest_fp8(std::ldexp(x[i], k), f), -k)) << i;
    }
}

TEST(Fp8, HalvesHoldTheRoundedNumbers) {
  const std::vector<float> x = some(5000, 0.02);
  std::vector<BF16> b(x.size()), rounded_b(x.size());
  std::vector<F16> h(x.size()), rounded_h(x.size());
  for (size_t i = 0; i < x.size(); ++i) b[i] = BF16(x[i]), h[i] = F16(x[i]);
  for (const Fp8 f : kFormats) {
    const auto check = [&](const auto& from, auto& to, DType type) {
      std::vector<float> wide(from.size()), wanted(from.size());
      for (size_t i = 0; i < from.size(); ++i) wide[i] = static_cast<float>(from[i]);
      round_to_fp8(from.data(), type, std::ssize(from), f, to.data(), 2);
      round_to_fp8(wide.data(), DType::kF32, std::ssize(wide), f, wanted.data(), 2);
      for (size_t i = 0; i < from.size(); ++i) ASSERT_EQ(static_cast<float>(to[i]), wanted[i]);
    };
    check(b, rounded_b, DType::kBF16);
    check(h, rounded_h, DType::kF16);
  }
}

TEST(Fp8, WhatIsNotFiniteIsNotHidden) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> x = some(100, 1), y(100);
    x[57] = bad;
    round_to_fp8(x.data(), DType::kF32, 100, Fp8::kE4M3, y.data(), 2);
    for (const float v : y) EXPECT_TRUE(std::isnan(v));
  }
  const std::vector<float> zero(10, 0.0f);
  std::vector<float> y(10, 1.0f);
  round_to_fp8(zero.data(), DType::kF32, 10, Fp8::kE5M2, y.data(), 2);
  EXPECT_EQ(y, zero);
}

// A product of rounded operands, whatever the order in which they stand.
TEST(Fp8, ProductsRoundTheirOperands) {
  constexpr int64_t kM = 16, kN = 48, kK = 32;
  const std::vector<float> a = some(kM * kK, 0.3), b = some(kK * kN, 20);
  std::vector<float> ra(a.size()), rb(b.size());
  round_to_fp8(a.data(), DType::kF32, std::ssize(a), Fp8::kE5M2, ra.data(), 2);
  round_to_fp8(b.data(), DType::kF32, std::ssize(b), Fp8::kE4M3, rb.data(), 2);
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const bool adds : {false, true}) {
        const MatmulShape shape = {.m = kM,
                                   .n = kN,
                                   .k = kK,
                                   .transpose_a = ta,
                                   .transpose_b = tb,
                                   .accumulate = adds,
                                   .fp8_a = Fp8::kE5M2,
                                   .fp8_b = Fp8::kE4M3};
        const Matmul product(shape, read_cpu_features(), 2);
        std::vector<std::byte> workspace(static_cast<size_t>(product.workspace_bytes()) + 64);
        void* place = workspace.data();
        size_t room = workspace.size();
        std::align(64, room - 63, place, room);
        std::vector<float> c(kM * kN, 2.0f);
        product.run({.workspace = place}, {a.data(), b.data(), c.data()});
        for (int64_t i = 0; i < kM; ++i)
          for (int64_t j = 0; j < kN; ++j) {
            double sum = adds ? 2.0 : 0.0, size = 1e-6;
            for (int64_t k = 0; k < kK; ++k) {
              const double term =
                  static_cast<double>(ra[static_cast<size_t>(ta ? k * kM + i : i * kK + k)]) *
                  static_cast<double>(rb[static_cast<size_t>(tb ? j * kK + k : k * kN + j)]);
              sum += term;
              size += std::fabs(term);
            }
            ASSERT_NEAR(c[static_cast<size_t>(i * kN + j)], sum, 1e-5 * size);
          }
      }
}

}  // namespace
}  // namespace tessera::kernels
