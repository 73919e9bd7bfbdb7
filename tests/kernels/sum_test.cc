#include "kernels/sum.h"

#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

TEST(Sum, AddsTermsAndBiasesOfMixedTypes) {
  for_every_target([] {
    for (const int64_t d : {1, 15, 64, 131}) {
      const Shape s{6, d};
      const Array a = Array::random(s, 1), b = Array::random(s, 2, DType::kBF16);
      const Array c = Array::random(s, 3), u = Array::random({d}, 4);
      const Array v = Array::random({d}, 5, DType::kBF16), out(s), low(s, DType::kBF16);
      compute(SumArgs{{a, b, c}, {u, v}, out});
      compute(SumArgs{{a, b, c}, {u, v}, low});
      std::vector<double> expected;
      for (int64_t i = 0; i < a.size(); ++i) {
        expected.push_back(a.at(i) + b.at(i) + c.at(i) + u.at(i % d) + v.at(i % d));
      }
      EXPECT_LT(distance(out, expected), 1e-6);
      EXPECT_LT(distance(low, expected), 3e-3);
    }
  });
}

TEST(Sum, MayWriteOverItsFirstTerm) {
  Array a = Array::random({4, 50}, 1);
  const Array before = a, b = Array::random({4, 50}, 2);
  compute(SumArgs{{a, b}, {}, a});
  for (int64_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a.as<float>()[i], before.as<float>()[i] + b.as<float>()[i]);
  }
}

TEST(BiasGrad, AddsRowsToWhatIsThere) {
  for_every_target([] {
    for (const auto& [n, d] : {std::pair<int64_t, int64_t>{1, 3}, {31, 16}, {32, 40}, {1000, 65}}) {
      const Array dy = Array::random({n, d}, 7);
      Array db = Array::full({d}, 2);
      std::vector<double> expected(static_cast<size_t>(d), 2);
      for (int64_t i = 0; i < dy.size(); ++i) expected[static_cast<size_t>(i % d)] += dy.at(i);
      compute(BiasGradArgs{dy, db});
      EXPECT_LT(distance(db, expected), 1e-6);
    }
  });
}

TEST(BiasGrad, RoundsASumOfSixteenBitsOnce) {
  for (const DType t : {DType::kBF16, DType::kF16}) {
    const Array dy = Array::full({1000, 33}, 0x1p-9, t);
    Array db = Array::full({33}, 1, t);
    compute(BiasGradArgs{dy, db});
    EXPECT_LT(distance(db, std::vector<double>(33, 1 + 1000 * 0x1p-9)), tolerance(t));
  }
}

TEST(BiasGrad, ThreadsDoNotChangeTheBits) {
  const Array dy = Array::random({1000, 300}, 8);
  expect_same_for_any_threads([&](int threads) {
    Array db({300});
    compute(BiasGradArgs{dy, db}, threads);
    return db;
  });
}

}  // namespace
}  // namespace tessera::kernels
