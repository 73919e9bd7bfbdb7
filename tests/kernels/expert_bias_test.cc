#include "kernels/expert_bias.h"

#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

struct Problem {
  int64_t n, h, e, k;
  Array choice, weights, bias, dy;

  Problem(int64_t tokens, int64_t hidden, int64_t experts, int64_t chosen, DType t)
      : n(tokens), h(hidden), e(experts), k(chosen) {
    choice = Array({n, k}, DType::kI32);
    for (int64_t i = 0; i < n * k; ++i)
      choice.set(i, static_cast<double>(i / k * 5 % (e - k + 1) + i % k));
    weights = Array::random({n, k}, 1);
    bias = Array::random({e, h}, 2, t);
    dy = Array::random({n, h}, 3, t);
  }
};

// Compares the experts [first, last) with the formula in double; gradients are added to `given`.
void compare(const Problem& p, int64_t first, int64_t last, DType sums, double given, int threads) {
  const int64_t own = last - first;
  const DType t = p.bias.view().dtype;
  const TensorView bias = {p.bias.as<std::byte>() + first * p.h * size_of(t), t, {own, p.h}};
  const Array y({p.n, p.h}, t), dw = Array::full({p.n, p.k}, 9);
  const Array d_bias = Array::full({own, p.h}, given, sums);
  compute(ExpertBiasArgs{p.choice, p.weights, bias, first, y}, threads);
  compute(ExpertBiasGradArgs{p.choice, p.weights, bias, first, p.dy, dw, d_bias}, threads);
  std::vector<double> ys(static_cast<size_t>(p.n * p.h)), dws(static_cast<size_t>(p.n * p.k));
  std::vector<double> sum(static_cast<size_t>(own * p.h), given);
  for (int64_t pair = 0; pair < p.n * p.k; ++pair) {
    const auto e = static_cast<int64_t>(p.choice.at(pair));
    if (e < first || e >= last) continue;
    for (int64_t c = 0; c < p.h; ++c) {
      const int64_t at = pair / p.k * p.h + c;
      ys[static_cast<size_t>(at)] += p.weights.at(pair) * p.bias.at(e * p.h + c);
      dws[static_cast<size_t>(pair)] += p.bias.at(e * p.h + c) * p.dy.at(at);
      sum[static_cast<size_t>((e - first) * p.h + c)] += p.weights.at(pair) * p.dy.at(at);
    }
  }
  EXPECT_LT(distance(y, ys), tolerance(t));
  EXPECT_LT(distance(dw, dws), 1e-6);
  EXPECT_LT(distance(d_bias, sum), tolerance(sums));
}

TEST(ExpertBias, IsTheFormula) {
  for_every_target([] {
    for (const DType t : {DType::kF32, DType::kBF16})
      for (const int threads : {1, 3}) {
        compare({1, 8, 2, 1, t}, 0, 2, DType::kF32, 0, threads);
        compare({67, 19, 8, 3, t}, 0, 8, DType::kF32, 2, threads);
        compare({67, 40, 8, 3, t}, 3, 5, t, 1, threads);
      }
  });
}

TEST(ExpertBias, ThreadsDoNotChangeTheBits) {
  const Problem p(300, 70, 8, 2, DType::kF32);
  expect_same_for_any_threads([&](int threads) {
    const Array dw({p.n, p.k});
    Array d_bias({p.e, p.h});
    compute(ExpertBiasGradArgs{p.choice, p.weights, p.bias, 0, p.dy, dw, d_bias}, threads);
    return d_bias;
  });
}

}  // namespace
}  // namespace tessera::kernels
