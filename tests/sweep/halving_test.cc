#include "sweep/halving.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tessera::sweep {
namespace {

TEST(Halving, RungsOfTwelveTrials) {
  EXPECT_EQ(rungs_of(12, 900, {3, 1, 1}), (std::vector<Rung>{{100, 12}, {300, 4}, {900, 1}}));
  EXPECT_EQ(rungs_of(12, 800, {2, 1, 1}),
            (std::vector<Rung>{{100, 12}, {200, 6}, {400, 3}, {800, 1}}));
  EXPECT_EQ(rungs_of(12, 900, {1, 1, 1}), (std::vector<Rung>{{900, 12}}));
  EXPECT_EQ(steps_of(rungs_of(12, 900, {3, 1, 1})), 12 * 100 + 4 * 200 + 600);
}

// The best of 12 costs at most 40 % of all in full, with three that run to the end.
TEST(Halving, FinalistsRunToTheEnd) {
  EXPECT_EQ(rungs_of(12, 900, {.eta = 3}), (std::vector<Rung>{{100, 12}, {300, 4}, {900, 3}}));
  EXPECT_EQ(rungs_of(12, 800, {.eta = 2}), (std::vector<Rung>{{100, 12}, {200, 6}, {800, 3}}));
  EXPECT_EQ(rungs_of(12, 800, {.eta = 2, .finalists = 6}),
            (std::vector<Rung>{{100, 12}, {800, 6}}));
  EXPECT_EQ(rungs_of(12, 800, {.eta = 2, .finalists = 20}), (std::vector<Rung>{{800, 12}}));
  EXPECT_LE(steps_of(rungs_of(12, 900, {.eta = 3})) * 10, 4 * 12 * 900);
  EXPECT_LE(steps_of(rungs_of(12, 800, {.eta = 2})) * 10, 4 * 12 * 800);
}

// Rungs are not within the warm-up, and a run of few steps has no rung twice.
TEST(Halving, ShortRungsAreLeftOutWithAllTrials) {
  EXPECT_EQ(rungs_of(12, 900, {3, 101, 1}), (std::vector<Rung>{{300, 12}, {900, 4}}));
  EXPECT_EQ(rungs_of(12, 900, {3, 5000, 1}), (std::vector<Rung>{{900, 12}}));
  EXPECT_EQ(rungs_of(27, 3, {3, 1, 1}), (std::vector<Rung>{{1, 27}, {3, 1}}));
  EXPECT_EQ(rungs_of(27, 1, {3, 1, 1}), (std::vector<Rung>{{1, 27}}));
  EXPECT_EQ(rungs_of(1, 10, {3, 1, 1}), (std::vector<Rung>{{10, 1}}));
  EXPECT_EQ(rungs_of(2, 10, {3, 1, 1}), (std::vector<Rung>{{10, 2}}));
}

TEST(Halving, StepsRiseAndTrialsFall) {
  for (int64_t trials = 1; trials < 40; ++trials)
    for (int64_t steps = 1; steps < 40; ++steps)
      for (int64_t eta = 1; eta < 5; ++eta)
        for (int64_t finalists = 1; finalists < 5; ++finalists) {
          const std::vector<Rung> rungs = rungs_of(trials, steps, {eta, 2, finalists});
          EXPECT_EQ(rungs.front().trials, trials);
          EXPECT_EQ(rungs.back().steps, steps);
          EXPECT_GE(rungs.back().trials, std::min(finalists, trials));
          for (size_t i = 1; i < rungs.size(); ++i) {
            EXPECT_GT(rungs[i].steps, rungs[i - 1].steps);
            EXPECT_LT(rungs[i].trials, rungs[i - 1].trials);
            EXPECT_LE(rungs[i].trials, std::max(finalists, rungs[i - 1].trials / eta));
          }
          EXPECT_LE(steps_of(rungs), trials * steps);
        }
}

TEST(Halving, KeepsTheSmallestFiniteScores) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(best_of({3, 1, 2, 1}, 3), (std::vector<size_t>{1, 3, 2}));
  EXPECT_EQ(best_of({kInf, std::nan(""), 5}, 2), (std::vector<size_t>{2}));
  EXPECT_TRUE(best_of({kInf}, 1).empty());
}

}  // namespace
}  // namespace tessera::sweep
