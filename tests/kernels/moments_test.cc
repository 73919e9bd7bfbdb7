// Moments in 8 bits: the values of the codes, quantization, and updates.
#include "kernels/update.h"

#include <algorithm>
#include <bit>

#include "tests/kernels/array.h"
#include "tests/kernels/update_step.h"

namespace tessera::kernels {
namespace {

// The value of a magnitude as the paper defines it: after a number of zero bits, the negative
// exponent of 10, comes a one, and the bits after it number the equal parts of [0.1, 1].
double value_of_bits(uint32_t bits, int width) {
  if (bits == 0) return 0;
  const int exponent = width - static_cast<int>(std::bit_width(bits));
  const uint32_t parts = std::bit_floor(bits), part = bits - parts;
  return std::pow(10, -exponent) * (0.1 + 0.9 * (part + 0.5) / parts);
}

std::vector<double> values_of(MomentCode code) {
  std::vector<double> values = {0, 1};
  if (code == MomentCode::kSigned) {
    for (uint32_t n = 1; n < 128; ++n)
      for (const double sign : {1.0, -1.0}) values.push_back(sign * value_of_bits(n, 7));
  } else {
    // The parts of each decade are twice as many: one bit more, which the smallest decade has too.
    for (uint32_t n = 2; n < 256; ++n) values.push_back(value_of_bits(n, 8));
  }
  std::sort(values.begin(), values.end());
  return values;
}

// Moments as the kernels store them.
struct Coded {
  Array codes, scales;
  MomentCode code;
  Coded(MomentCode kind, int64_t n)
      : codes({n}, DType::kU8), scales({(n + kMomentBlock - 1) / kMomentBlock}), code(kind) {}
  Coded(MomentCode kind, const std::vector<float>& x)
      : Coded(kind, static_cast<int64_t>(x.size())) {
    quantize_moments(x, code, bytes(), numbers(), 2);
  }
  std::span<uint8_t> bytes() const {
    return {codes.as<uint8_t>(), static_cast<size_t>(codes.size())};
  }
  std::span<float> numbers() const {
    return {scales.as<float>(), static_cast<size_t>(scales.size())};
  }
  float at(int64_t i) const {
    return table_of(code).values[codes.as<uint8_t>()[i]] * scales.as<float>()[i / kMomentBlock];
  }
  std::vector<float> read() const {
    std::vector<float> x(static_cast<size_t>(codes.size()));
    dequantize_moments(bytes(), numbers(), code, 0, x);
    return x;
  }
  bool same(const Coded& o) const { return codes.same_bits(o.codes) && scales.same_bits(o.scales); }
};

// Blocks with magnitudes over many decades: of first moments with both signs.
std::vector<float> spread(MomentCode code, int64_t n, uint64_t seed) {
  const Array exponents = Array::random({n}, seed), signs = Array::random({n}, seed + 1);
  std::vector<float> x;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t block = i / kMomentBlock;
    const double a = std::pow(10, -4.5 + 4.5 * exponents.at(i)) * (1 + static_cast<double>(block));
    x.push_back(static_cast<float>(code == MomentCode::kSigned && signs.at(i) < 0 ? -a : a));
  }
  return x;
}

// |ratio - values| has its minimum at the value of the code, up to the rounding of a few f32: of
// ratio and value, and where the ratio is that of a sum, `rounding` of its terms.
void expect_nearest(MomentCode code, double ratio, double value, double rounding = 0) {
  double least = 2;
  for (const double v : values_of(code)) {
    if (code == MomentCode::kUnsigned && ratio > 0 && v == 0) continue;
    least = std::min(least, std::abs(ratio - v));
  }
  const double bound = 1e-6 * std::max(std::abs(ratio), std::abs(value)) + rounding;
  EXPECT_LE(std::abs(ratio - value), least + bound) << ratio << " as " << value;
}

TEST(MomentCode, ValuesAreThoseOfThePaper) {
  for (const MomentCode code : {MomentCode::kSigned, MomentCode::kUnsigned}) {
    const MomentTable& t = table_of(code);
    std::vector<double> ours(std::begin(t.values), std::end(t.values));
    EXPECT_EQ(ours[0], 0);
    std::sort(ours.begin(), ours.end());
    const std::vector<double> values = values_of(code);
    ASSERT_EQ(values.size(), 256u);
    for (size_t i = 0; i < 256; ++i) EXPECT_NEAR(ours[i], values[i], 1e-7 * std::abs(values[i]));
  }
}

TEST(MomentCode, EveryValueHasItsOwnCode) {
  for_every_target([] {
    for (const MomentCode code : {MomentCode::kSigned, MomentCode::kUnsigned}) {
      // Blocks of 63 values and the 1 that makes the scale 1.
      std::vector<float> x;
      std::vector<int> codes;
      for (int c = 0; c < 256; ++c) {
        if (x.size() % 64 == 63) x.push_back(1), codes.push_back(-1);
        x.push_back(table_of(code).values[c]), codes.push_back(c);
      }
      while (x.size() % 64 != 0) x.push_back(1), codes.push_back(-1);
      const Coded y(code, x);
      for (size_t i = 0; i < x.size(); ++i)
        EXPECT_TRUE(codes[i] < 0 || codes[i] == y.bytes()[i]) << x[i];
    }
  });
}

TEST(MomentCode, ChoosesTheNearestValue) {
  for_every_target([] {
    for (const MomentCode code : {MomentCode::kSigned, MomentCode::kUnsigned}) {
      const std::vector<float> x = spread(code, 64 * 40, 3);
      const Coded y(code, x);
      for (int64_t i = 0; i < std::ssize(x); ++i) {
        float scale = 0;
        for (int64_t k = i / 64 * 64; k < i / 64 * 64 + 64; ++k)
          if (std::abs(x[k]) > std::abs(scale)) scale = x[k];
        EXPECT_EQ(y.numbers()[i / 64], scale);
        expect_nearest(code, static_cast<double>(x[i]) / scale,
                       table_of(code).values[y.bytes()[i]]);
      }
    }
  });
}

// So a checkpoint that stores f32 resumes with the same bits.
TEST(MomentCode, ReadMomentsHaveTheSameCodes) {
  for_every_target([] {
    for (const MomentCode code : {MomentCode::kSigned, MomentCode::kUnsigned})
      for (const double factor : {1.0, 1e20, 1e-20, 3e-30, 2e-38}) {
        std::vector<float> x = spread(code, 64 * 100, 5);
        for (float& v : x) v = static_cast<float>(v * factor);
        const float sign = code == MomentCode::kSigned ? -1 : 1;
        for (int i = 0; i < 64; ++i) x[i] = 0, x[64 + i] = sign * x[64 + i];
        x[130] = 9 * x[129], x[140] = sign * x[130];  // two largest elements
        const Coded y(code, x);
        EXPECT_TRUE(y.same(Coded(code, y.read()))) << factor;
      }
  });
}

TEST(MomentCode, OnlyZeroIsStoredAsZeroInSecondMoments) {
  std::vector<float> x(64, 1e-20f);
  x[0] = 4, x[1] = 0;
  const Coded y(MomentCode::kUnsigned, x);
  EXPECT_EQ(y.at(0), 4);
  EXPECT_EQ(y.at(1), 0);
  for (int i = 2; i < 64; ++i) EXPECT_FLOAT_EQ(y.at(i), 4 * 3.25e-7f);
  // First moments are rounded to the nearest value, which is 0.
  EXPECT_EQ(Coded(MomentCode::kSigned, x).at(2), 0);
}

TEST(MomentCode, BlocksBelowTheSmallestScaleAreZero) {
  const std::vector<float> x(64, 7e-31f);
  for (const MomentCode code : {MomentCode::kSigned, MomentCode::kUnsigned})
    for (const float v : Coded(code, x).read()) EXPECT_EQ(v, 0);
}

// ---- Updates

constexpr int64_t kElements = 1403;
const UpdateRange kRanges[] = {
    {0, 100, true, 5, 0}, {128, 300, false, 6, 0}, {320, kElements, true, 7, 64}};

// One optimizer with moments in 8 bits, and the same in double on the moments that were read.
struct CodedRun {
  OptimizerKind rule;
  Array w = Array::random({kElements}, 1), low = Array({kElements}, DType::kBF16);
  Coded m{MomentCode::kSigned, kElements}, v{MomentCode::kUnsigned, kElements};
  bool has_v() const { return traits_of(rule).moment2; }

  Update update_with(const Array& g) const {
    Update u{.weights = w,
             .m = m.codes,
             .gradient = g,
             .weights_low = low,
             .ranges = kRanges,
             .m_scales = m.scales};
    if (has_v()) u.v = v.codes, u.v_scales = v.scales;
    return u;
  }
};

struct Element {
  double w, m, v;
};

Element updated(OptimizerKind rule, Element x, double g, const StepNumbers& s, bool decay) {
  g *= s.scale;
  const double keep = decay ? 1 - s.learning_rate * s.weight_decay : 1;
  if (rule == OptimizerKind::kAdamW) {
    x.m = s.beta1 * x.m + (1 - s.beta1) * g;
    x.v = s.beta2 * x.v + (1 - s.beta2) * g * g;
    const double root = std::sqrt(x.v / (1 - std::pow(s.beta2, s.step))) + s.epsilon;
    x.w = x.w * keep - s.learning_rate / (1 - std::pow(s.beta1, s.step)) * x.m / root;
  } else if (rule == OptimizerKind::kLion) {
    const double c = s.beta1 * x.m + (1 - s.beta1) * g;
    x.w = x.w * keep - s.learning_rate * (c > 0 ? 1 : (c < 0 ? -1 : 0));
    x.m = s.beta2 * x.m + (1 - s.beta2) * g;
  } else {
    x.m = s.beta1 * x.m + g + (decay ? s.weight_decay * x.w : 0);
    x.w -= s.learning_rate * x.m;
  }
  return x;
}

// The scale of the block of element i, computed from the exact moments of its range.
double scale_of(const std::vector<double>& x, int64_t i, const UpdateRange& r) {
  double scale = 0;
  for (int64_t k = i / 64 * 64; k < std::min(i / 64 * 64 + 64, r.end); ++k)
    if (std::abs(x[static_cast<size_t>(k)]) > std::abs(scale)) scale = x[static_cast<size_t>(k)];
  return scale;
}

void expect_stored(const Coded& c, const std::vector<double>& x, const UpdateRange& r) {
  for (int64_t i = r.begin; i < r.end; ++i) {
    const double scale = scale_of(x, i, r), exact = x[static_cast<size_t>(i)];
    EXPECT_NEAR(c.scales.at(i / 64), scale, 1e-6 * std::abs(scale));
    // The terms of a moment are at most a few times as large as the largest moment.
    expect_nearest(c.code, exact / scale, table_of(c.code).values[c.codes.as<uint8_t>()[i]],
                   0x1p-22);
  }
}

class CodedUpdates : public ::testing::TestWithParam<OptimizerKind> {};

TEST_P(CodedUpdates, FollowTheFormula) {
  for_every_target([] {
    CodedRun run{GetParam()};
    for (int64_t step = 1; step <= 12; ++step) {
      const Array g = Array::random({kElements}, 100 + static_cast<uint64_t>(step), DType::kF32, 5);
      const StepNumbers s{.learning_rate = 1e-2,
                          .beta2 = 0.95,
                          .weight_decay = 0.1,
                          .step = static_cast<double>(step),
                          .scale = 0.25};
      std::vector<double> w(kElements), m(kElements), v(kElements);
      for (int64_t i = 0; i < kElements; ++i) w[i] = run.w.at(i);
      for (const UpdateRange& r : kRanges)
        for (int64_t i = r.begin; i < r.end; ++i) {
          const Element x =
              updated(run.rule, {w[i], run.m.at(i), run.v.at(i)}, g.at(i), s, r.decay);
          w[i] = x.w, m[i] = x.m, v[i] = x.v;
        }
      update(run.rule, run.update_with(g), s, 2);
      EXPECT_LT(distance(run.w, w), 1e-6);
      for (const UpdateRange& r : kRanges) {
        expect_stored(run.m, m, r);
        if (run.has_v()) expect_stored(run.v, v, r);
        for (int64_t i = r.begin; i < r.end; ++i)
          EXPECT_EQ(run.low.as<BF16>()[i].bits, BF16(run.w.as<float>()[i]).bits);
      }
      // Elements between the ranges are unchanged.
      for (int64_t i : {100, 127, 300, 319}) EXPECT_EQ(run.m.codes.at(i), 0);
    }
  });
}

TEST_P(CodedUpdates, ThreadsDoNotChangeTheBits) {
  const int64_t n = 100'003;
  const Array g = Array::random({n}, 2);
  const UpdateRange ranges[] = {{0, 30'007, true}, {30'016, n, false}};
  const bool has_v = traits_of(GetParam()).moment2;
  expect_same_for_any_threads([&](int threads) {
    Array w = Array::random({n}, 1);
    const Coded m(MomentCode::kSigned, n), v(MomentCode::kUnsigned, n);
    for (int step = 1; step <= 2; ++step) {
      Update u{.weights = w, .m = m.codes, .gradient = g, .ranges = ranges, .m_scales = m.scales};
      if (has_v) u.v = v.codes, u.v_scales = v.scales;
      update(GetParam(), u, {.learning_rate = 1e-3, .step = static_cast<double>(step)}, threads);
    }
    return w;
  });
}

TEST_P(CodedUpdates, SkipLeavesEverything) {
  CodedRun run{GetParam()};
  update(run.rule, run.update_with(Array::random({kElements}, 3)), {.learning_rate = 1e-2});
  const CodedRun before = run;
  update(run.rule, run.update_with(Array::full({kElements}, std::nan(""))),
         {.learning_rate = 1, .skip = true});
  EXPECT_TRUE(run.w.same_bits(before.w));
  EXPECT_TRUE(run.m.same(before.m));
  EXPECT_TRUE(run.v.same(before.v));
}

// Weights in bf16 are rounded with the random bits that belong to their elements, as with moments
// in f32: from the same moments, the step gives the same weights.
TEST_P(CodedUpdates, WeightsAreRoundedAsWithMomentsInF32) {
  for_every_target([] {
    CodedRun run{GetParam()};
    run.w = Array::random({kElements}, 1, DType::kBF16);
    for (int64_t step = 1; step <= 3; ++step) {
      const Array g = Array::random({kElements}, 7 + static_cast<uint64_t>(step));
      Array w = run.w, m({kElements}), v({kElements});
      for (int64_t i = 0; i < kElements; ++i) m.set(i, run.m.at(i)), v.set(i, run.v.at(i));
      const StepNumbers s{.learning_rate = 1e-2, .step = static_cast<double>(step)};
      Update u = run.update_with(g);
      u.weights_low = {};
      u.stochastic = true;
      update(run.rule, u, s);
      u.weights = w, u.m = m, u.m_scales = {}, u.v_scales = {};
      if (run.has_v()) u.v = v;
      update(run.rule, u, s);
      EXPECT_TRUE(run.w.same_bits(w)) << step;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, CodedUpdates,
                         ::testing::Values(OptimizerKind::kAdamW, OptimizerKind::kLion,
                                           OptimizerKind::kSgd),
                         [](const auto& kind) { return std::string(traits_of(kind.param).name); });

// A gradient that is small next to the others of its block leaves a first moment that is not zero;
// without a smallest second moment, the next steps without gradient would divide it by epsilon.
TEST(CodedAdamW, StepsAreBoundedWhereTheSecondMomentIsSmall) {
  const int64_t n = 64;
  Array w({n}), g = Array::full({n}, 1e-4);
  g.set(0, 1);
  const Coded m(MomentCode::kSigned, n), v(MomentCode::kUnsigned, n);
  const UpdateRange all{0, n, false};
  for (int64_t step = 1; step <= 50; ++step) {
    const Array before = w;
    update(OptimizerKind::kAdamW,
           {.weights = w,
            .m = m.codes,
            .v = v.codes,
            .gradient = g,
            .ranges = {&all, 1},
            .m_scales = m.scales,
            .v_scales = v.scales},
           {.learning_rate = 1, .step = static_cast<double>(step)});
    for (int64_t i = 0; i < n; ++i) EXPECT_LE(std::abs(w.at(i) - before.at(i)), 2) << step;
    if (step == 1) g = Array::full({n}, 0), g.set(0, 1);
  }
}

TEST(CodedMoments, RejectRangesWithinABlockAndMissingScales) {
  const CodedRun run{OptimizerKind::kAdamW};
  const Array g({kElements});
  Update u = run.update_with(g);
  u.v_scales = {};
  EXPECT_DEATH(update(run.rule, u, {}), "adamw: 1403 moments with");
  u = run.update_with(g);
  const UpdateRange within{32, 64, true};
  u.ranges = {&within, 1};
  EXPECT_DEATH(update(run.rule, u, {}), "begins within a block");
}

}  // namespace
}  // namespace tessera::kernels
