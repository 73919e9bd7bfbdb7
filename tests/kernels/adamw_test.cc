#include "kernels/adamw.h"

#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

// torch.optim.AdamW, one element, in double.
struct Element {
  double w, m = 0, v = 0;
  void update(double g, const AdamWStep& s, bool decay) {
    g *= s.scale;
    if (decay) w *= 1 - s.learning_rate * s.weight_decay;
    m = s.beta1 * m + (1 - s.beta1) * g;
    v = s.beta2 * v + (1 - s.beta2) * g * g;
    const double t = static_cast<double>(s.step);
    const double denominator = std::sqrt(v) / std::sqrt(1 - std::pow(s.beta2, t)) + s.epsilon;
    w -= s.learning_rate / (1 - std::pow(s.beta1, t)) * m / denominator;
  }
};

TEST(AdamW, FollowsTheFormulaOverSteps) {
  for_every_target([] {
    const int64_t n = 203;
    Array w = Array::random({n}, 1), m({n}), v({n}), low({n}, DType::kBF16);
    const Array untouched = w;
    std::vector<Element> elements;
    for (int64_t i = 0; i < n; ++i) elements.push_back({w.at(i)});
    const UpdateRange ranges[] = {{0, 64, true}, {64, 100, false}, {103, n, true}};
    for (int64_t step = 1; step <= 20; ++step) {
      const Array g = Array::random({n}, 100 + static_cast<uint64_t>(step), DType::kF32, 5);
      const AdamWStep s{
          .learning_rate = 1e-2, .beta2 = 0.95, .weight_decay = 0.1, .step = step, .scale = 0.25};
      adamw({w, m, v, g, low, ranges}, s);
      for (int64_t i = 0; i < n; ++i) {
        if (i < 100 || i >= 103)
          elements[static_cast<size_t>(i)].update(g.at(i), s, i < 64 || i >= 103);
      }
    }
    std::vector<double> expected;
    for (const Element& e : elements) expected.push_back(e.w);
    EXPECT_LT(distance(w, expected), 1e-6);
    for (int64_t i = 0; i < n; ++i) {
      if (i >= 100 && i < 103) {
        EXPECT_EQ(w.at(i), untouched.at(i));
      } else {
        EXPECT_EQ(low.as<BF16>()[i].bits, BF16(w.as<float>()[i]).bits);
      }
    }
  });
}

TEST(AdamW, SkipLeavesEverything) {
  Array w = Array::random({50}, 1), m({50}), v({50});
  const Array before = w, g = Array::full({50}, std::nan(""));
  const UpdateRange all{0, 50, true};
  adamw({w, m, v, g, {}, {&all, 1}}, {.learning_rate = 1, .skip = true});
  EXPECT_TRUE(w.same_bits(before));
}

TEST(AdamW, ThreadsDoNotChangeTheBits) {
  const int64_t n = 100003;
  const Array g = Array::random({n}, 2);
  const UpdateRange all{0, n, true};
  expect_same_for_any_threads([&] {
    Array w = Array::random({n}, 1), m({n}), v({n});
    adamw({w, m, v, g, {}, {&all, 1}}, {.learning_rate = 1e-3, .weight_decay = 0.1});
    return w;
  });
}

}  // namespace
}  // namespace tessera::kernels
