// The gradient-noise scale: its estimator on gradients with known noise, and its measurement in a
// run.
#include "train/noise_scale.h"

#include <random>

#include "tests/train/tiny_run.h"

namespace tessera::train {
namespace {

// |G|² = (8·4 − 2·10) / 6 = 2 and tr Σ = (10 − 4) / (1/2 − 1/8) = 16: B = 8.
TEST(NoiseScaleOf, OneMeasurement) {
  NoiseScale noise;
  EXPECT_FALSE(noise.value());
  noise.add({2, std::sqrt(10)}, {8, 2});
  ASSERT_TRUE(noise.value());
  EXPECT_NEAR(*noise.value(), 8, 1e-12);
  noise.add({2, NAN}, {8, 2});
  noise.add({2, 1}, {8, INFINITY});
  EXPECT_NEAR(*noise.value(), 8, 1e-12);
}

// A part whose gradient is not longer than that of the step has no noise to measure.
TEST(NoiseScaleOf, NoValueWithoutNoise) {
  NoiseScale noise;
  noise.add({2, 1}, {8, 1});
  EXPECT_FALSE(noise.value());
}

// Both estimates decay alike: (16 · 0.95 + 4) / (2 · 0.95 + 2) with |G|² = (8·2.5 − 2·4) / 6 = 2
// and tr Σ = 1.5 / 0.375 = 4.
TEST(NoiseScaleOf, TheMeansAreDivided) {
  NoiseScale noise;
  noise.add({2, std::sqrt(10)}, {8, 2});
  noise.add({2, 2}, {8, std::sqrt(2.5)});
  EXPECT_NEAR(*noise.value(), (16 * 0.95 + 4) / (2 * 0.95 + 2), 1e-12);
  Tree state = Tree::object();
  noise.save(state);
  NoiseScale again;
  again.restore(parse_json(to_json(state), "state"));
  EXPECT_EQ(*again.value(), *noise.value());
  again.restore(Tree::object());  // of a checkpoint without measurements
  EXPECT_EQ(*again.value(), *noise.value());
}

// Gradients of samples are G + σ z with normal z in n dimensions, so B = n σ² / |G|².
TEST(NoiseScaleOf, GradientsWithKnownNoise) {
  constexpr int kDimensions = 50, kSmall = 4, kLarge = 32, kMeasurements = 2000;
  constexpr double kGradient = 0.3, kSigma = 2;  // per dimension
  std::mt19937 random(1);
  std::normal_distribution<double> normal(0, kSigma);
  NoiseScale noise;
  double mean = 0;
  int values = 0;
  for (int i = 0; i < kMeasurements; ++i) {
    std::vector<double> small(kDimensions), large(kDimensions);
    for (int s = 0; s < kLarge; ++s)
      for (int d = 0; d < kDimensions; ++d) {
        const double g = kGradient + normal(random);
        large[d] += g / kLarge;
        if (s < kSmall) small[d] += g / kSmall;
      }
    const auto norm = [](const std::vector<double>& g) {
      double sum = 0;
      for (const double x : g) sum += x * x;
      return std::sqrt(sum);
    };
    noise.add({kSmall, norm(small)}, {kLarge, norm(large)});
    if (i < 200) continue;
    ASSERT_TRUE(noise.value());
    mean += *noise.value();
    ++values;
  }
  // The mean over decayed means; one of them is within some 20 %.
  const double expected = kSigma * kSigma / (kGradient * kGradient);
  EXPECT_NEAR(mean / values, expected, 0.05 * expected);
}

struct Measured {
  Curve curve;
  std::vector<double> parts;
};

Measured measured(config::RunConfig c, bool measures) {
  if (measures) c.metrics.noise_scale_every_steps = 1;
  const auto world = comm::self_world();
  Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2), INT64_MAX,
                  *world, {});
  trainer.initialize();
  data::BatchSource source = batches(c);
  Measured out;
  for (int64_t s = 1; s <= 3; ++s) {
    trainer.prepare_step(s, 1e-3, source);
    if (measures) {
      const GradientOfBatch part = trainer.gradient_of_part();
      EXPECT_EQ(part.samples, c.batch.micro);
      out.parts.push_back(part.norm);
    }
    const StepResult r = trainer.run_step();
    EXPECT_TRUE(r.finite);
    out.curve.losses.push_back(r.loss);
    out.curve.norms.push_back(r.grad_norm);
  }
  return out;
}

class NoiseScaleOfFamily : public testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Families, NoiseScaleOfFamily, testing::ValuesIn(every_family()));

TEST_P(NoiseScaleOfFamily, MeasuringChangesNoBit) {
  config::RunConfig c = tiny(GetParam());
  c.model.dropout = 0.1;
  c.batch.global = 6;
  const Measured with = measured(c, true), without = measured(c, false);
  EXPECT_EQ(with.curve.losses, without.curve.losses);
  EXPECT_EQ(with.curve.norms, without.curve.norms);
}

// The gradient of the part of the first step is that of a run whose steps are one micro-batch.
TEST_P(NoiseScaleOfFamily, ThePartIsTheFirstMicrobatch) {
  config::RunConfig c = tiny(GetParam());
  c.batch.global = 6;
  const Measured whole = measured(c, true);
  c.batch.global = c.batch.micro;
  const Measured one = measured(c, false);
  EXPECT_NEAR(whole.parts[0], one.curve.norms[0], 1e-6 * one.curve.norms[0]);
  EXPECT_NE(whole.parts[0], whole.curve.norms[0]);
}

}  // namespace
}  // namespace tessera::train
