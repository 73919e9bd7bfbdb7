// What `tessera tune` reads and keeps.
#include <gtest/gtest.h>

#include "base/error.h"
#include "measure/trial.h"
#include "measure/tune_history.h"
#include "measure/tune_points.h"

namespace tessera::measure {
namespace {

TEST(TuneKnob, NumbersAreOrderedNamesAreNot) {
  const plan::Knob micro = parse_knob("batch.micro=1,2,16");
  EXPECT_EQ(micro.key, "batch.micro");
  EXPECT_EQ(micro.choices, (std::vector<std::string>{"1", "2", "16"}));
  EXPECT_TRUE(micro.ordered);
  EXPECT_FALSE(parse_knob("layout.recompute=none,full").ordered);
  EXPECT_THROW(parse_knob("batch.micro"), UsageError);
  EXPECT_THROW(parse_knob("batch.micro="), UsageError);
}

TEST(TuneTrial, TheFirstStepIsNotMeasured) {
  const auto line = [](double s) { return fmt::format("{{\"step\":1,\"step_s\":{}}}\n", s); };
  EXPECT_DOUBLE_EQ(median_step_s(line(9.5) + line(0.5) + line(0.25) + line(0.75)), 0.5);
  EXPECT_DOUBLE_EQ(median_step_s(line(9.5)), 0);
  EXPECT_DOUBLE_EQ(median_step_s(""), 0);
  // Lines of validation have no time of a step.
  EXPECT_DOUBLE_EQ(median_step_s(line(9.5) + line(0.5) + "{\"validation_loss\":3.5}\n"), 0.5);
}

TEST(TuneHistory, IsReadBackAndPointsOfOtherSpacesAreLeft) {
  const Path path = Path(::testing::TempDir()) / "tune_history.json";
  std::filesystem::remove(path);
  TrialConditions here;
  const plan::Space space =
      plan::product({parse_knob("batch.micro=1,2"), parse_knob("layout.zero=0,1")});
  add_to_history(path, space, here, {1, {plan::Outcome::kRan, 0.5}});
  add_to_history(path, space, here, {2, {plan::Outcome::kOutOfMemory, 0}});
  const std::vector<PastTrial> past = read_history(path, space, here);
  ASSERT_EQ(past.size(), 2u);
  EXPECT_EQ(past[0].point, 1u);
  EXPECT_DOUBLE_EQ(past[0].result.seconds, 0.5);
  EXPECT_EQ(past[1].result.outcome, plan::Outcome::kOutOfMemory);
  const plan::Space other =
      plan::product({parse_knob("batch.micro=1,4"), parse_knob("layout.zero=0,1")});
  EXPECT_EQ(read_history(path, other, here).size(), 1u);
  EXPECT_TRUE(read_history(path.string() + ".none", space, here).empty());
  write_file(path, "{\"trials\": [{\"point\": {}, \"seconds\": 1.5}]}");
  EXPECT_THROW(read_history(path, space, here), Error);
  write_file(path, "{\"trials\": 7}");
  EXPECT_THROW(read_history(path, space, here), Error);
  std::filesystem::remove(path);
}

TEST(TuneHistory, TrialsUnderOtherConditionsStayAndAreNotCounted) {
  const Path path = Path(::testing::TempDir()) / "tune_conditions.json";
  const std::string old =
      R"({"trials": [{"point": {"batch.micro": "1"}, "outcome": "ran", "seconds": 9.5}]})";
  write_file(path, old);
  const plan::Space space = plan::product({parse_knob("batch.micro=1,2")});
  TrialConditions here;
  here.ranks = 2;
  EXPECT_TRUE(read_history(path, space, here).empty());
  add_to_history(path, space, here, {0, {plan::Outcome::kRan, 0.5}});
  std::vector<TrialConditions> others(5, here);
  others[0].run = "2";
  others[1].machine = "another CPU";
  others[2].ranks = 1;
  others[3].steps = 4;
  others[4].simulated = true;
  for (const TrialConditions& other : others) {
    EXPECT_TRUE(read_history(path, space, other).empty());
    add_to_history(path, space, other, {0, {plan::Outcome::kRan, 0.25}});
    EXPECT_EQ(read_history(path, space, other).size(), 1u);
  }
  const std::vector<PastTrial> past = read_history(path, space, here);
  ASSERT_EQ(past.size(), 1u);
  EXPECT_DOUBLE_EQ(past[0].result.seconds, 0.5);
  EXPECT_EQ(parse_json(read_file(path), "").find("trials")->as_list()->size(), 7u);
  std::filesystem::remove(path);
}

TEST(TunePerturbed, FiguresStayWithinTheShareAndFollowTheSeed) {
  plan::Hardware h;
  for (double* f :
       {&h.device.memory_bytes, &h.device.memory_bytes_per_s, &h.device.bf16_flops_per_s,
        &h.device.fp32_flops_per_s, &h.device.kernel_s, &h.node.bytes_per_s, &h.node.latency_s,
        &h.network.bytes_per_s, &h.network.latency_s})
    *f = 100;
  const plan::Hardware a = perturbed(h, 0.3, 1), b = perturbed(h, 0.3, 2);
  for (const plan::Hardware* p : {&a, &b}) {
    EXPECT_GE(p->network.bytes_per_s, 70);
    EXPECT_LE(p->network.bytes_per_s, 130);
  }
  EXPECT_NE(a.network.bytes_per_s, b.network.bytes_per_s);
  EXPECT_EQ(a.network.bytes_per_s, perturbed(h, 0.3, 1).network.bytes_per_s);
}

}  // namespace
}  // namespace tessera::measure
