// Attention with sinks: forward, gradients, and attention to a cache.
#include "base/error.h"
#include "kernels/attention.h"
#include "kernels/attention_parts.h"
#include "tests/kernels/attention_reference.h"

namespace tessera::kernels {
namespace {

std::vector<double> numbers(const Array& a) {
  std::vector<double> all;
  for (int64_t i = 0; i < a.size(); ++i) all.push_back(a.at(i));
  return all;
}

// `level`: the mean of the sinks. The gradient of the sinks is added to what is given.
void compare(const AttentionSizes& z, DType t, double level, const AttentionDropout& drop = {},
             AttentionLimits limits = {}) {
  SCOPED_TRACE(fmt::format("B {} T {} KV {} G {} D {} {} window {} level {}", z.b, z.t, z.kv, z.g,
                           z.d, name_of(t), limits.window, level));
  // Outputs are proportional to e^score if the sink takes almost the whole sum: they have the
  // absolute error of the scores as their relative error, so these must be small.
  const double spread = level > 20 ? 1 : 3;
  const Array qkv = Array::random(z.qkv(), 1, t, spread), d_out = Array::random(z.out(), 2, t);
  Array sinks = Array::random({z.heads()}, 3, t, 2), d_sinks = Array::full({z.heads()}, 0.5);
  for (int64_t h = 0; h < z.heads(); ++h) sinks.set(h, sinks.at(h) + level);
  limits.sinks = numbers(sinks);
  const Array out(z.out(), t), lse({z.b, z.heads(), z.t}), d_qkv(z.qkv(), t);
  AttentionScope scope;
  scope.window = limits.window;
  compute(AttentionArgs{qkv, out, lse, 0.3f, drop, {}, scope, sinks}, 2);
  compute(AttentionGradArgs{qkv, out, lse, d_out, d_qkv, 0.3f, drop, {}, {}, scope}, 2);
  compute(SinksGradArgs{sinks, out, d_out, lse, d_sinks}, 2);
  AttentionAnswer a = attention_reference(z, qkv, d_out, static_cast<double>(0.3f), drop, limits);
  for (double& x : a.d_sinks) x += 0.5;
  // e^(s - lse) has the relative error that rounding lse to f32 gives: |lse| 2^-24.
  EXPECT_LT(distance(out, a.out), tolerance(t) + std::abs(level) * 0x1p-24);
  EXPECT_LT(distance(lse, a.lse), 1e-6);
  EXPECT_LT(distance(d_qkv, a.d_qkv), t == DType::kBF16 ? 6e-3 : 2e-6);
  EXPECT_LT(distance(d_sinks, a.d_sinks), t == DType::kBF16 ? 6e-3 : 2e-6);
}

TEST(AttentionSinks, AreOneMoreScoreOfARow) {
  for_every_target([] {
    for (const double level : {-60.0, -2.0, 0.0, 3.0, 60.0})
      compare({2, 70, 2, 2, 24}, DType::kF32, level);
    compare({1, 1, 1, 3, 16}, DType::kF32, 1);
    compare({2, 66, 2, 1, 40}, DType::kBF16, 1);
  });
}

TEST(AttentionSinks, WithAWindowAndDropout) {
  for_every_target([] {
    for (const int64_t window : {1, 20, 64, 100})
      compare({1, 150, 1, 2, 16}, DType::kF32, 1, {}, {.window = window});
    Array samples({2}, DType::kI64);
    samples.set(1, 12);
    compare({2, 70, 2, 1, 16}, DType::kF32, 1, {{.probability = 0.25f, .key = 99}, samples, 5});
  });
}

// The gradient is that of sum(out * d_out), by differences in double.
TEST(AttentionSinks, TheGradientIsThatOfTheFormula) {
  const AttentionSizes z{2, 9, 2, 2, 8};
  const Array qkv = Array::random(z.qkv(), 1), d_out = Array::random(z.out(), 2);
  AttentionLimits limits = {.sinks = {0.5, -1, 2, 0}};
  const auto loss = [&] {
    const std::vector<double> out = attention_reference(z, qkv, d_out, 0.4, {}, limits).out;
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i) sum += out[i] * d_out.at(static_cast<int64_t>(i));
    return sum;
  };
  const std::vector<double> gradient = attention_reference(z, qkv, d_out, 0.4, {}, limits).d_sinks;
  for (size_t h = 0; h < limits.sinks.size(); ++h) {
    const double at = limits.sinks[h], step = 1e-5;
    limits.sinks[h] = at + step;
    const double above = loss();
    limits.sinks[h] = at - step;
    const double below = loss();
    limits.sinks[h] = at;
    EXPECT_NEAR(gradient[h], (above - below) / (2 * step), 1e-8);
  }
}

// Probabilities of all pairs in memory, with the sinks in the softmax.
TEST(AttentionSinks, InPartsAreTheFormula) {
  for_every_target([] {
    const AttentionSizes z{2, 37, 2, 2, 16};
    const Shape pairs{z.b, z.heads(), z.t, z.t};
    const Array qkv = Array::random(z.qkv(), 1), d_out = Array::random(z.out(), 2);
    const Array sinks = Array::random({z.heads()}, 3, DType::kF32, 2);
    const Array p(pairs), dp(pairs), lse({z.b, z.heads(), z.t}), out(z.out());
    Array d_qkv(z.qkv()), d_sinks({z.heads()});
    const AttentionAnswer a =
        attention_reference(z, qkv, d_out, 0.5, {}, {.sinks = numbers(sinks)});
    compute(AttentionScoresArgs{qkv, 0.5f, p});
    compute(SoftmaxArgs{p, p, sinks, lse});
    compute(AttentionMixArgs{qkv, p, out});
    compute(AttentionMixGradArgs{qkv, p, d_out, dp, d_qkv});
    compute(SinksGradArgs{sinks, p, dp, lse, d_sinks, true});
    EXPECT_LT(distance(p, a.probabilities), 1e-6);
    EXPECT_LT(distance(lse, a.lse), 1e-6);
    EXPECT_LT(distance(out, a.out), 1e-6);
    EXPECT_LT(distance(d_sinks, a.d_sinks), 2e-6);
  });
}

TEST(AttentionSinks, ThreadsDoNotChangeTheBits) {
  const AttentionSizes z{2, 100, 3, 2, 32};
  const Array qkv = Array::random(z.qkv(), 1), d_out = Array::random(z.out(), 2);
  const Array sinks = Array::random({z.heads()}, 3), lse({z.b, z.heads(), z.t}), out(z.out());
  compute(AttentionArgs{qkv, out, lse, 0.2f, {}, {}, {}, sinks}, 2);
  expect_same_for_any_threads([&](int threads) {
    Array d_sinks({z.heads()});
    compute(SinksGradArgs{sinks, out, d_out, lse, d_sinks}, threads);
    return d_sinks;
  });
}

TEST(AttentionSinks, ACacheInPiecesEqualsAllAtOnce) {
  const AttentionSizes z{2, 75, 2, 2, 24};
  const int64_t row = z.kv * (z.g + 2) * z.d, width = z.heads() * z.d;
  const Array qkv = Array::random(z.qkv(), 1), sinks = Array::random({z.heads()}, 3);
  const Array cache({z.b, 80, 2, z.kv, z.d}), whole(z.out());
  compute(AttentionArgs{qkv, whole, {}, 0.25f, {}, {}, {}, sinks}, 2);
  int64_t start = 0;
  for (const int64_t n : {66, 1, 1, 5, 1, 1}) {
    Array piece({z.b, n, z.kv, z.g + 2, z.d});
    for (int64_t i = 0; i < piece.size(); ++i)
      piece.set(i, qkv.at(i / (n * row) * z.t * row + start * row + i % (n * row)));
    const Array out({z.b, n, z.heads(), z.d});
    const std::vector<int32_t> places(z.b * n, static_cast<int32_t>(start));
    CachedAttentionArgs args{piece, cache, places.data(), out, 0.25f};
    args.sinks = sinks;
    compute(args, 2);
    std::vector<double> expected;
    for (int64_t i = 0; i < out.size(); ++i)
      expected.push_back(whole.at(i / (n * width) * z.t * width + start * width + i % (n * width)));
    EXPECT_LT(distance(out, expected), 1e-6) << start;
    start += n;
  }
}

}  // namespace
}  // namespace tessera::kernels
