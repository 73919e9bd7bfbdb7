#include "config/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "config/run_config.h"

namespace tessera::config {
namespace {

Schedule of(ScheduleKind kind, MinLrMode rule = MinLrMode::kInterpolate) {
  return {.kind = kind,
          .min_lr_mode = rule,
          .peak = 1.0,
          .min_lr = 0.1,
          .warmup_steps = 4,
          .end_step = 24,
          .wsd_steps = 8};
}

// Values of Megatron-LM's formulas, worked out by hand for n = step − 1.
TEST(Schedule, WarmUpStartsAtZeroAndReachesThePeakAfterItsSteps) {
  for (const auto kind : {ScheduleKind::kCosine, ScheduleKind::kLinear, ScheduleKind::kInverseSqrt,
                          ScheduleKind::kConstant, ScheduleKind::kWsd}) {
    EXPECT_EQ(learning_rate(of(kind), 1), 0.0);
    EXPECT_EQ(learning_rate(of(kind), 2), 0.25);
    EXPECT_EQ(learning_rate(of(kind), 4), 0.75);
    EXPECT_EQ(learning_rate(of(kind), 5), 1.0);
  }
}

TEST(Schedule, WithoutWarmUpTheFirstStepHasThePeak) {
  Schedule s = of(ScheduleKind::kCosine);
  s.warmup_steps = 0;
  EXPECT_EQ(learning_rate(s, 1), 1.0);
}

TEST(Schedule, CosineBlendsBetweenPeakAndFloor) {
  const Schedule s = of(ScheduleKind::kCosine);
  EXPECT_NEAR(learning_rate(s, 10), 0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5)), 1e-15);  // r = 1/4
  EXPECT_NEAR(learning_rate(s, 15), 0.55, 1e-15);                                    // r = 1/2
  EXPECT_NEAR(learning_rate(s, 25), 0.1, 1e-15);                                     // r = 1
  EXPECT_EQ(learning_rate(s, 26), 0.1);
  EXPECT_EQ(learning_rate(s, 1000), 0.1);
}

TEST(Schedule, CosineClampedFollowsThePlainCosineDownToTheFloor) {
  const Schedule s = of(ScheduleKind::kCosine, MinLrMode::kClamp);
  EXPECT_NEAR(learning_rate(s, 10), 0.5 * (1 + std::sqrt(0.5)), 1e-15);
  EXPECT_NEAR(learning_rate(s, 15), 0.5, 1e-15);
  EXPECT_NEAR(learning_rate(s, 20), 0.5 * (1 - std::sqrt(0.5)), 1e-15);  // r = 3/4, above 0.1
  EXPECT_EQ(learning_rate(s, 24), 0.1);                                  // r = 19/20: 0.006
}

TEST(Schedule, Linear) {
  EXPECT_NEAR(learning_rate(of(ScheduleKind::kLinear), 15), 0.55, 1e-15);
  EXPECT_NEAR(learning_rate(of(ScheduleKind::kLinear, MinLrMode::kClamp), 15), 0.5, 1e-15);
  EXPECT_EQ(learning_rate(of(ScheduleKind::kLinear, MinLrMode::kClamp), 25), 0.1);
}

TEST(Schedule, InverseSquareRoot) {
  const Schedule s = of(ScheduleKind::kInverseSqrt);
  EXPECT_DOUBLE_EQ(learning_rate(s, 17), 0.5);  // sqrt(4 / 16)
  Schedule low = s;
  low.min_lr = 0.9;
  EXPECT_EQ(learning_rate(low, 17), 0.9);
}

TEST(Schedule, ConstantStaysAtThePeakForEver) {
  EXPECT_EQ(learning_rate(of(ScheduleKind::kConstant), 20), 1.0);
  EXPECT_EQ(learning_rate(of(ScheduleKind::kConstant), 2000), 1.0);
}

TEST(Schedule, WsdStaysAndThenFallsInItsLastSteps) {
  const Schedule s = of(ScheduleKind::kWsd);
  EXPECT_EQ(learning_rate(s, 12), 1.0);
  EXPECT_EQ(learning_rate(s, 17), 1.0);  // n = 16 = E − D
  EXPECT_NEAR(learning_rate(s, 21), 0.55, 1e-15);
  EXPECT_NEAR(learning_rate(s, 25), 0.1, 1e-15);
}

TEST(Schedule, WsdDecaysOverATenthWhereNothingIsSaid) {
  Schedule s = of(ScheduleKind::kWsd);
  s.end_step = 100;
  s.wsd_steps = 0;
  EXPECT_EQ(learning_rate(s, 91), 1.0);
  EXPECT_LT(learning_rate(s, 92), 1.0);
}

TEST(Schedule, NeverRisesAfterTheWarmUpAndNeverFallsBelowTheFloor) {
  for (const auto kind : {ScheduleKind::kCosine, ScheduleKind::kLinear, ScheduleKind::kInverseSqrt,
                          ScheduleKind::kConstant, ScheduleKind::kWsd}) {
    for (const auto rule : {MinLrMode::kInterpolate, MinLrMode::kClamp}) {
      const Schedule s = of(kind, rule);
      for (int64_t step = 6; step < 60; ++step) {
        EXPECT_LE(learning_rate(s, step), learning_rate(s, step - 1));
        EXPECT_GE(learning_rate(s, step), s.min_lr - 1e-15);
      }
    }
  }
}

TEST(MakeSchedule, TakesTheFloorAsAShareAndTheDecayWithoutTheWarmUp) {
  ScheduleSection section;
  section.steps = 100;
  section.warmup_steps = 10;
  section.min_lr_ratio = 0.1;
  const Schedule whole = make_schedule(section, 2.0);
  EXPECT_EQ(whole.end_step, 100);
  EXPECT_DOUBLE_EQ(whole.min_lr, 0.2);
  section.decay_steps = 40;
  EXPECT_EQ(make_schedule(section, 2.0).end_step, 50);
  section.kind = ScheduleKind::kWsd;
  EXPECT_EQ(make_schedule(section, 2.0).end_step, 100);
  EXPECT_EQ(make_schedule(section, 2.0).wsd_steps, 40);
}

TEST(Schedule, AWarmUpAsLongAsTheRunIsNoDivisionByZero) {
  Schedule s = of(ScheduleKind::kCosine);
  s.end_step = s.warmup_steps;
  EXPECT_EQ(learning_rate(s, 5), 1.0);
  EXPECT_EQ(learning_rate(s, 6), 0.1);
}

// T5's pre-training: 1 / sqrt(max(n, 10,000)).
TEST(Schedule, T5sIsAnInverseRootBehindAConstantWarmUp) {
  ScheduleSection section;
  section.kind = ScheduleKind::kInverseSqrt;
  section.warmup = WarmUp::kConstant;
  section.warmup_steps = 10'000;
  section.steps = 1'000'000;
  const Schedule s = make_schedule(section, 0.01);
  for (const int64_t n : {0, 1, 9'999, 10'000, 10'001, 40'000, 999'999})
    EXPECT_NEAR(learning_rate(s, n + 1),
                1 / std::sqrt(static_cast<double>(std::max<int64_t>(n, 10'000))), 1e-12);
}

}  // namespace
}  // namespace tessera::config
