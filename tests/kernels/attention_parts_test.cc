#include "kernels/attention_parts.h"

#include "base/error.h"
#include "tests/kernels/attention_reference.h"

namespace tessera::kernels {
namespace {

void compare(const AttentionSizes& z, DType t, const AttentionLimits& limits = {}) {
  const int64_t window = limits.window;
  const auto cap = static_cast<float>(limits.soft_cap);
  SCOPED_TRACE(fmt::format("B {} T {} KV {} G {} D {} {}", z.b, z.t, z.kv, z.g, z.d, name_of(t)));
  const float scale = 0.25f;
  const Shape square{z.b, z.heads(), z.t, z.t};
  const Array qkv = Array::random(z.qkv(), 1, t, 2), d_out = Array::random(z.out(), 2, t);
  const Array scores(square), p(square), out(z.out(), t), dp(square), d_qkv(z.qkv(), t);
  compute(AttentionScoresArgs{qkv, scale, scores, window, cap}, 2);
  compute(SoftmaxArgs{scores, p});
  compute(AttentionMixArgs{qkv, p, out}, 2);
  compute(AttentionMixGradArgs{qkv, p, d_out, dp, d_qkv}, 2);
  const AttentionAnswer a = attention_reference(z, qkv, d_out, 0.25, {}, limits);
  EXPECT_LT(distance(p, a.probabilities), 1e-6);
  EXPECT_LT(distance(out, a.out), tolerance(t));
  EXPECT_LT(distance(dp, a.d_probabilities), 2e-6);
  compute(SoftmaxGradArgs{p, dp, dp});
  EXPECT_LT(distance(dp, a.d_scores), 3e-6);
  compute(AttentionScoresGradArgs{qkv, scale, dp, d_qkv, cap}, 2);
  EXPECT_LT(distance(d_qkv, a.d_qkv), t == DType::kBF16 ? 3e-3 : 1e-6);
  for (int64_t i = 0; i < z.t; ++i) {
    for (int64_t j = 0; j < z.t; ++j) {
      const auto u = static_cast<size_t>(i * z.t + j);
      if (j > i || (window > 0 && j <= i - window)) {
        EXPECT_EQ(scores.at(i * z.t + j), -HUGE_VAL);
      } else {
        EXPECT_NEAR(scores.at(i * z.t + j), a.scores[u], 1e-5);
      }
    }
  }
}

TEST(AttentionParts, TogetherAreAttention) {
  for_every_target([] {
    compare({1, 1, 1, 1, 8}, DType::kF32);
    compare({2, 70, 2, 1, 24}, DType::kF32);
    compare({1, 131, 1, 2, 16}, DType::kF32);
    compare({1, 65, 2, 2, 32}, DType::kBF16);
    for (const int64_t window : {1, 20, 64, 100})
      compare({1, 131, 1, 2, 16}, DType::kF32, {.window = window});
    compare({1, 70, 1, 2, 16}, DType::kF32, {.soft_cap = 0.7});
    compare({1, 131, 2, 1, 16}, DType::kF32, {.window = 30, .soft_cap = 2});
  });
}

TEST(Softmax, RowsOfAnyLength) {
  for_every_target([] {
    for (const int64_t d : {1, 5, 16, 33, 100}) {
      const Array x = Array::random({3, d}, 1, DType::kF32, 20), y({3, d});
      compute(SoftmaxArgs{x, y});
      for (int64_t r = 0; r < 3; ++r) {
        double sum = 0;
        for (int64_t c = 0; c < d; ++c) sum += std::exp(x.at(r * d + c));
        for (int64_t c = 0; c < d; ++c) {
          EXPECT_NEAR(y.at(r * d + c), std::exp(x.at(r * d + c)) / sum, 2e-7);
        }
      }
    }
  });
}

}  // namespace
}  // namespace tessera::kernels
