#include "train/milestones.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

// What is due after each step from 0 on: v, s, l.
std::string due(const RunConfig& c, int64_t steps) {
  std::string out;
  for (int64_t step = 0; step <= steps; ++step) {
    const Milestones m = milestones_after(c, step);
    out += fmt::format(" {}:{}{}{}", step, m.validate ? "v" : "", m.save ? "s" : "",
                       m.leave ? "l" : "");
  }
  return out;
}

RunConfig config() {
  RunConfig c;
  c.schedule.steps = 5;
  c.checkpoint.every_steps = 2;
  c.metrics.validate_every_steps = 3;
  return c;
}

TEST(Milestones, FollowTheirPeriodsAndTheEnd) {
  EXPECT_EQ(due(config(), 5), " 0: 1: 2:s 3:v 4:s 5:vsl");
}

TEST(Milestones, ZeroMeansOnlyAtTheEnd) {
  RunConfig c = config();
  c.checkpoint.every_steps = c.metrics.validate_every_steps = 0;
  EXPECT_EQ(due(c, 5), " 0: 1: 2: 3: 4: 5:vsl");
}

TEST(Milestones, SomeStepsByName) {
  RunConfig c = config();
  c.checkpoint.every_steps = 0;
  c.checkpoint.at_steps = {1, 4};
  EXPECT_EQ(due(c, 5), " 0: 1:s 2: 3:v 4:s 5:vsl");
}

TEST(Milestones, AStopSavesAndLeaves) {
  RunConfig c = config();
  c.run.stop_after_steps = 3;
  EXPECT_EQ(due(c, 3), " 0: 1: 2:s 3:vsl");
  c.run.stop_after_steps = 1;
  EXPECT_EQ(due(c, 1), " 0: 1:sl");
}

TEST(Milestones, ARunOfNoStepsSavesWhatItLoaded) {
  RunConfig c = config();
  c.schedule.steps = 0;
  EXPECT_TRUE(milestones_after(c, 0).save);
  EXPECT_TRUE(milestones_after(c, 0).leave);
}

}  // namespace
}  // namespace tessera
