#include "kernels/attention.h"

#include <gtest/gtest.h>

namespace tessera::kernels {
namespace {

// Where buckets begin, as transformers' T5 has them for 32 buckets and a distance of 128.
TEST(RelativeBucket, BeginsWhereTransformersDoes) {
  const int64_t causal[] = {16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113};
  const RelativeBuckets past{.causal = true};
  for (int64_t d = 0; d < 16; ++d) EXPECT_EQ(relative_bucket(past, -d), d);
  for (int64_t b = 0; b < 16; ++b) {
    EXPECT_EQ(relative_bucket(past, -causal[b]), 16 + b);
    EXPECT_EQ(relative_bucket(past, -(causal[b] - 1)), 15 + b);
  }
  EXPECT_EQ(relative_bucket(past, -100'000), 31);
  EXPECT_EQ(relative_bucket(past, 5), 0);
  const int64_t both[] = {8, 12, 16, 23, 32, 46, 64, 91};
  const RelativeBuckets whole{.causal = false};
  for (int64_t b = 0; b < 8; ++b)
    for (const int64_t side : {0, 16}) {
      const int64_t sign = side == 0 ? -1 : 1;
      EXPECT_EQ(relative_bucket(whole, sign * both[b]), side + 8 + b);
      EXPECT_EQ(relative_bucket(whole, sign * (both[b] - 1)), side + 7 + b);
    }
  EXPECT_EQ(relative_bucket(whole, 0), 0);
  EXPECT_EQ(relative_bucket(whole, 1), 17);
  EXPECT_EQ(relative_bucket(whole, 100'000), 31);
}

}  // namespace
}  // namespace tessera::kernels
