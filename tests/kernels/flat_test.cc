// Kernels over flat ranges: sums of squares, conversions, constants, initial values.
#include <limits>

#include "base/philox.h"
#include "kernels/cast.h"
#include "kernels/fill.h"
#include "kernels/initialise.h"
#include "kernels/squares.h"
#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

TEST(Squares, SumsInDoubleWithTheSameBitsEverywhere) {
  const Array x = Array::random({50001}, 1);
  double expected = 0;
  for (int64_t i = 0; i < x.size(); ++i) expected += x.at(i) * x.at(i);
  Workspace workspace(squares_workspace_bytes(x.size()));
  const double first = sum_of_squares(x, workspace);
  EXPECT_NEAR(first, expected, 1e-12 * expected);
  for_every_target([&] {
    for (const int threads : {1, 2}) {
      omp_set_num_threads(threads);
      EXPECT_EQ(sum_of_squares(x, workspace), first);
    }
  });
}

TEST(Squares, NonFiniteIsSeenAndFound) {
  Array x = Array::full({9000}, 3e38);
  Workspace workspace(squares_workspace_bytes(9000));
  EXPECT_TRUE(std::isfinite(sum_of_squares(x, workspace)));
  EXPECT_EQ(first_non_finite(x), -1);
  x.set(8999, std::numeric_limits<double>::infinity());
  EXPECT_EQ(first_non_finite(x), 8999);
  x.set(77, std::nan(""));
  EXPECT_FALSE(std::isfinite(sum_of_squares(x, workspace)));
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
    cast(x, low);
    cast(low, back);
    for (int64_t i = 0; i < n; ++i) {
      const BF16 wanted(x.as<float>()[i]);
      ASSERT_EQ(low.as<BF16>()[i].bits, wanted.bits) << i;
      const auto widened = std::bit_cast<uint32_t>(back.as<float>()[i]);
      ASSERT_EQ(widened, static_cast<uint32_t>(wanted.bits) << 16);
    }
  });
}

TEST(Fill, ClearsAndFills) {
  Array x = Array::random({1001}, 1), low({1001}, DType::kBF16);
  fill(x, 2.5f);
  fill(low, -1.0f);
  for (int64_t i = 0; i < 1001; ++i) EXPECT_TRUE(x.at(i) == 2.5 && low.at(i) == -1);
  clear(x);
  for (int64_t i = 0; i < 1001; ++i) EXPECT_EQ(x.at(i), 0);
}

TEST(Initialise, IsAFunctionOfTheGlobalElement) {
  const Array whole({1000});
  initialise_normal(whole, {.key = 42, .deviation = 0.5});
  for (const int64_t first : {1, 2, 3, 4, 517}) {
    const Array part({100});
    initialise_normal(part, {.key = 42, .first = first, .deviation = 0.5});
    for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(part.at(i), whole.at(first + i));
  }
  const PhiloxBlock b = Philox{42}.block(5);
  EXPECT_EQ(whole.as<float>()[20], static_cast<float>(0.5 * Philox::normal(b[0], b[1])));
}

TEST(Initialise, IsNormal) {
  const Array x({200000});
  initialise_normal(x, {.key = 7, .mean = 1, .deviation = 2});
  double m1 = 0, m2 = 0, m4 = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    const double z = (x.at(i) - 1) / 2;
    m1 += z / 2e5;
    m2 += z * z / 2e5;
    m4 += z * z * z * z / 2e5;
  }
  EXPECT_NEAR(m1, 0, 0.01);
  EXPECT_NEAR(m2, 1, 0.02);
  EXPECT_NEAR(m4, 3, 0.15);
}

TEST(Initialise, ThreadsDoNotChangeTheBits) {
  expect_same_for_any_threads([] {
    Array x({30001}, DType::kBF16);
    initialise_normal(x, {.key = 3});
    return x;
  });
}

}  // namespace
}  // namespace tessera::kernels
