// One-pass optimizers and the rounding of what they store.
#include "kernels/update.h"

#include "tests/kernels/array.h"
#include "tests/kernels/update_step.h"

namespace tessera::kernels {
namespace {

// torch.optim.AdamW, one element, in double.
struct Element {
  double w, m = 0, v = 0;
  void update(double g, const StepNumbers& s, bool decay) {
    g *= s.scale;
    if (decay) w *= 1 - s.learning_rate * s.weight_decay;
    m = s.beta1 * m + (1 - s.beta1) * g;
    v = s.beta2 * v + (1 - s.beta2) * g * g;
    const double t = s.step;
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
      const StepNumbers s{.learning_rate = 1e-2,
                          .beta2 = 0.95,
                          .weight_decay = 0.1,
                          .step = static_cast<double>(step),
                          .scale = 0.25};
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
  expect_same_for_any_threads([&](int threads) {
    Array w = Array::random({n}, 1), m({n}), v({n});
    adamw({w, m, v, g, {}, {&all, 1}}, {.learning_rate = 1e-3, .weight_decay = 0.1}, threads);
    return w;
  });
}

TEST(Lion, FollowsTheFormulaOverSteps) {
  for_every_target([] {
    const int64_t n = 77;
    Array w = Array::random({n}, 1), m({n});
    std::vector<double> weights, moments(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) weights.push_back(w.at(i));
    const UpdateRange ranges[] = {{0, 40, true}, {40, n, false}};
    for (int64_t step = 1; step <= 10; ++step) {
      Array g = Array::random({n}, 50 + static_cast<uint64_t>(step));
      g.set(3, 0);  // of which the sign is 0, not 1
      update(OptimizerKind::kLion, {.weights = w, .m = m, .gradient = g, .ranges = ranges},
             {.learning_rate = 1e-2,
              .beta1 = 0.9,
              .beta2 = 0.99,
              .weight_decay = 0.1,
              .step = static_cast<double>(step),
              .scale = 0.5});
      for (int64_t i = 0; i < n; ++i) {
        double &x = weights[static_cast<size_t>(i)], &y = moments[static_cast<size_t>(i)];
        const double gradient = 0.5 * g.at(i), c = 0.9 * y + 0.1 * gradient;
        if (i < 40) x *= 1 - 1e-2 * 0.1;
        x -= 1e-2 * (c > 0 ? 1 : (c < 0 ? -1 : 0));
        y = 0.99 * y + 0.01 * gradient;
      }
    }
    EXPECT_LT(distance(w, weights), 1e-6);
    EXPECT_LT(distance(m, moments), 1e-6);
  });
}

TEST(Sgd, FollowsTheFormulaWithAndWithoutMomentum) {
  for_every_target([] {
    for (const double momentum : {0.9, 0.0}) {
      const int64_t n = 53;
      Array w = Array::random({n}, 1), m({n});
      std::vector<double> weights, moments(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) weights.push_back(w.at(i));
      const UpdateRange ranges[] = {{0, 20, true}, {20, n, false}};
      for (int64_t step = 1; step <= 5; ++step) {
        const Array g = Array::random({n}, 50 + static_cast<uint64_t>(step));
        update(OptimizerKind::kSgd,
               {.weights = w,
                .m = momentum > 0 ? m.view() : TensorView(),
                .gradient = g,
                .ranges = ranges},
               {.learning_rate = 0.1,
                .beta1 = momentum,
                .weight_decay = 0.2,
                .step = static_cast<double>(step)});
        for (int64_t i = 0; i < n; ++i) {
          double &x = weights[static_cast<size_t>(i)], &y = moments[static_cast<size_t>(i)];
          y = momentum * y + g.at(i) + (i < 20 ? 0.2 * x : 0);
          x -= 0.1 * y;
        }
      }
      EXPECT_LT(distance(w, weights), 1e-6) << momentum;
    }
  });
}

// The update as its authors' program writes it, from y and z; x follows from them. The share of z
// in the mean is that of a constant rate.
TEST(ScheduleFree, FollowsTheFormulaOverSteps) {
  struct Reference {
    double y, z, v = 0;
    void update(double g, const StepNumbers& s, bool decay) {
      v = s.beta2 * v + (1 - s.beta2) * g * g;
      const double root = std::sqrt(v / (1 - std::pow(s.beta2, s.step)));
      const double step = g / (root + s.epsilon) + (decay ? s.weight_decay * y : 0);
      y += s.share * (z - y) + s.learning_rate * (s.beta1 * (1 - s.share) - 1) * step;
      z -= s.learning_rate * step;
    }
    double x(double beta1) const { return y + (1 - 1 / beta1) * (z - y); }
  };
  for_every_target([] {
    const int64_t n = 83;
    Array x = Array::random({n}, 1), z = x, v({n}), y({n});
    std::vector<Reference> wanted;
    for (int64_t i = 0; i < n; ++i) wanted.push_back({x.at(i), x.at(i)});
    const UpdateRange ranges[] = {{0, 40, true}, {40, n, false}};
    for (int64_t step = 1; step <= 12; ++step) {
      const Array g = Array::random({n}, 50 + static_cast<uint64_t>(step), DType::kF32, 4);
      const StepNumbers s{.learning_rate = 1e-2,
                          .weight_decay = 0.1,
                          .step = static_cast<double>(step),
                          .scale = 0.5,
                          .share = 1 / static_cast<double>(step)};
      update(OptimizerKind::kScheduleFree,
             {.weights = x, .m = z, .v = v, .gradient = g, .weights_low = y, .ranges = ranges}, s);
      for (int64_t i = 0; i < n; ++i)
        wanted[static_cast<size_t>(i)].update(0.5 * g.at(i), s, i < 40);
      // What round_weights() computes from the state has the bits that the update wrote.
      Array again({n});
      launch(Cpu(), {.threads = 1}, InterpolateArgs{0.9f, z, x, again});
      EXPECT_TRUE(again.same_bits(y)) << step;
    }
    std::vector<double> ys, zs, xs;
    for (const Reference& r : wanted) {
      ys.push_back(r.y);
      zs.push_back(r.z);
      xs.push_back(r.x(0.9));
    }
    EXPECT_LT(distance(y, ys), 1e-6);
    EXPECT_LT(distance(z, zs), 1e-6);
    EXPECT_LT(distance(x, xs), 1e-6);
  });
}

TEST(WeightAverage, IsAnExponentialMean) {
  for_every_target([] {
    for (const DType type : {DType::kF32, DType::kBF16}) {
      const int64_t n = 51;
      Array e = Array::random({n}, 1);
      const Array w = Array::random({n}, 2, type);
      const double skip[] = {0, 1};
      std::vector<double> wanted;
      for (int64_t i = 0; i < n; ++i) wanted.push_back(e.at(i) + 0.25 * (w.at(i) - e.at(i)));
      compute(WeightAverageArgs{0.25f, w, &skip[0], e});
      EXPECT_LT(distance(e, wanted), 1e-7);
      const Array kept = e;
      compute(WeightAverageArgs{0.25f, w, &skip[1], e});
      EXPECT_TRUE(e.same_bits(kept));
    }
  });
}

// Weights alone that go down by `by` through a gradient: rounded stochastically into bf16.
struct Rounded {
  Array w, g;
  Rounded(int64_t n, double from, double by)
      : w(Array::full({n}, from, DType::kBF16)), g(Array::full({n}, by)) {}
  void step(int64_t t, std::span<const UpdateRange> ranges) {
    update(OptimizerKind::kSgd, {.weights = w, .gradient = g, .ranges = ranges, .stochastic = true},
           {.learning_rate = 1, .beta1 = 0, .step = static_cast<double>(t)});
  }
};

// Between 1 and the bf16 below it lie 2^-8; a step of 0.3 of them must go down with probability 0.3
// each time: the mean over n draws is within five of its standard deviations.
TEST(StochasticRounding, IsUnbiased) {
  constexpr double kUnit = 0x1p-8;
  for_every_target([] {
    const int64_t n = 100'000;
    const UpdateRange all{0, n, false, 77, 0};
    for (const double share : {0.5, 0.3, 0.01, 0.97}) {
      Rounded x(n, 1, share * kUnit);
      x.step(3, {&all, 1});
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_TRUE(x.w.at(i) == 1 || x.w.at(i) == 1 - kUnit) << x.w.at(i);
        sum += (1 - x.w.at(i)) / kUnit;
      }
      const double mean = sum / static_cast<double>(n);
      EXPECT_NEAR(mean, share, 5 * std::sqrt(share * (1 - share) / static_cast<double>(n)));
    }
  });
}

// What rounding to nearest never leaves: small steps add up to what they are together.
TEST(StochasticRounding, SmallStepsAddUp) {
  const int64_t n = 20'000, steps = 64;
  const double by = 0x1p-12;  // a sixteenth of a unit
  const UpdateRange all{0, n, false, 77, 0};
  Rounded x(n, 1, by), nearest(n, 1, by);
  for (int64_t t = 1; t <= steps; ++t) {
    x.step(t, {&all, 1});
    update(OptimizerKind::kSgd, {.weights = nearest.w, .gradient = nearest.g, .ranges = {&all, 1}},
           {.learning_rate = 1, .beta1 = 0, .step = static_cast<double>(t)});
  }
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += 1 - x.w.at(i);
    EXPECT_EQ(nearest.w.at(i), 1);
  }
  const double moved = static_cast<double>(steps) * by;
  // Each step draws 1 of 16 units: their variances add up over the steps.
  const double deviation =
      std::sqrt(static_cast<double>(steps) * (1.0 / 16) * (15.0 / 16)) * 0x1p-8;
  EXPECT_NEAR(sum / static_cast<double>(n), moved,
              5 * deviation / std::sqrt(static_cast<double>(n)));
}

// The same elements of the same weight get the same bits, wherever they lie and however they are
// cut; another key or step draws others.
TEST(StochasticRounding, DependsOnKeyStepAndElementAlone) {
  const int64_t n = 1001;
  const auto draw = [&](int64_t t, uint64_t key, std::vector<UpdateRange> ranges, int64_t shift) {
    Rounded x(n + shift, 1, 0.4 * 0x1p-8);
    for (UpdateRange& r : ranges) {
      r.begin += shift;
      r.end += shift;
      r.key = key;
    }
    x.step(t, ranges);
    Array out({n}, DType::kBF16);
    std::memcpy(out.data(), x.w.as<uint16_t>() + shift, static_cast<size_t>(n) * 2);
    return out;
  };
  const std::vector<UpdateRange> whole = {{0, n, false, 0, 5000}};
  const Array first = draw(9, 7, whole, 0);
  for_every_target([&] {
    EXPECT_TRUE(first.same_bits(draw(9, 7, whole, 13)));
    EXPECT_TRUE(first.same_bits(
        draw(9, 7, {{0, 3, false, 0, 5000}, {3, 70, false, 0, 5003}, {70, n, false, 0, 5070}}, 1)));
  });
  EXPECT_FALSE(first.same_bits(draw(10, 7, whole, 0)));
  EXPECT_FALSE(first.same_bits(draw(9, 8, whole, 0)));
  EXPECT_FALSE(first.same_bits(draw(9, 7, {{0, n, false, 0, 5001}}, 0)));
}

// In one update weight and moments round by different bits.
TEST(StochasticRounding, WeightAndMomentsAreUncorrelated) {
  const int64_t n = 50'000;
  Array w = Array::full({n}, 1, DType::kBF16), m({n}, DType::kBF16), v({n}, DType::kBF16);
  const Array g = Array::full({n}, 1.001953125 + 0x1p-12);
  const UpdateRange all{0, n, false, 3, 0};
  adamw({.weights = w, .m = m, .v = v, .gradient = g, .ranges = {&all, 1}, .stochastic = true},
        {.learning_rate = 0x1p-9, .beta1 = 0.7, .beta2 = 0.7, .step = 1});
  const auto ups = [&](const Array& a) {
    double low = a.at(0);
    for (int64_t i = 0; i < n; ++i) low = std::min(low, a.at(i));
    std::vector<double> up;
    for (int64_t i = 0; i < n; ++i) up.push_back(a.at(i) > low ? 1.0 : 0.0);
    return up;
  };
  const auto correlation = [&](const std::vector<double>& a, const std::vector<double>& b) {
    double sa = 0, sb = 0, sab = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      sa += a[i];
      sb += b[i];
      sab += a[i] * b[i];
    }
    const auto count = static_cast<double>(n);
    const double va = sa / count * (1 - sa / count), vb = sb / count * (1 - sb / count);
    EXPECT_GT(va, 0.01);
    EXPECT_GT(vb, 0.01);
    return (sab / count - sa / count * sb / count) / std::sqrt(va * vb);
  };
  const auto a = ups(w), b = ups(m), c = ups(v);
  const double bound = 5 / std::sqrt(static_cast<double>(n));
  EXPECT_LT(std::abs(correlation(a, b)), bound);
  EXPECT_LT(std::abs(correlation(a, c)), bound);
  EXPECT_LT(std::abs(correlation(b, c)), bound);
}

TEST(StochasticRounding, KeepsWhatIsNotFinite) {
  const UpdateRange all{0, 3, false, 1, 0};
  Array w = Array::full({3}, 1, DType::kBF16), g({3});
  g.set(0, INFINITY);
  g.set(1, std::nan(""));
  update(OptimizerKind::kSgd,
         {.weights = w, .gradient = g, .ranges = {&all, 1}, .stochastic = true},
         {.learning_rate = 1, .beta1 = 0, .step = 1});
  EXPECT_EQ(w.at(0), -INFINITY);
  EXPECT_TRUE(std::isnan(w.at(1)));
  EXPECT_EQ(w.at(2), 1);
}

}  // namespace
}  // namespace tessera::kernels
