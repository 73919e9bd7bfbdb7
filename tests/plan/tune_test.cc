#include "plan/tune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace tessera::plan {
namespace {

// A bowl in three knobs with a cliff: the last choices of `a` do not run.
struct Landscape {
  Space space = product({{"a", {"1", "2", "4", "8", "16", "32", "64"}, true},
                         {"b", {"1", "2", "4", "8", "16", "32"}, true},
                         {"c", {"u", "v", "w", "x"}, false}});

  bool runs(size_t i) const { return space.points[i][0] < 5; }
  double seconds(size_t i) const {
    const Point& p = space.points[i];
    const double a = p[0] - 3.2, b = p[1] - 1.7, c[] = {0.3, 0.0, 0.5, 0.2};
    return std::exp(0.06 * a * a + 0.04 * b * b + 0.02 * a * b + c[p[2]]);
  }
  TrialResult run(size_t i) const {
    return runs(i) ? TrialResult{Outcome::kRan, seconds(i)} : TrialResult{Outcome::kOutOfMemory, 0};
  }
  double best() const {
    double best = 1e9;
    for (size_t i = 0; i < space.points.size(); ++i)
      if (runs(i)) best = std::min(best, seconds(i));
    return best;
  }
};

size_t trials_until_near_best(Tuner& tuner, const Landscape& land) {
  for (size_t trial = 1;; ++trial) {
    const std::vector<size_t> asked = tuner.ask(1);
    if (asked.empty()) return trial;
    tuner.tell(asked[0], land.run(asked[0]));
    if (land.runs(asked[0]) && land.seconds(asked[0]) <= 1.02 * land.best()) return trial;
  }
}

TEST(Tuner, WithoutPriorFindsTheBestOfABowlInAFractionOfItsPoints) {
  const Landscape land;
  std::vector<size_t> trials;
  for (uint64_t seed = 0; seed < 9; ++seed) {
    Tuner tuner(land.space, {}, {.seed = seed});
    trials.push_back(trials_until_near_best(tuner, land));
  }
  std::sort(trials.begin(), trials.end());
  EXPECT_LE(trials[4], land.space.points.size() / 6);
}

TEST(Tuner, ATruePriorIsTriedFirst) {
  const Landscape land;
  std::vector<PriorBelief> prior;
  for (size_t i = 0; i < land.space.points.size(); ++i)
    prior.push_back({7 * land.seconds(i), land.runs(i) ? 4.0 : -4.0});  // wrong by a factor, only
  Tuner tuner(land.space, prior, {});
  EXPECT_EQ(trials_until_near_best(tuner, land), 1u);
}

TEST(Tuner, PointsAskedTogetherDifferAndNoneIsAskedTwice) {
  const Landscape land;
  Tuner tuner(land.space, {}, {.seed = 5});
  std::set<size_t> seen;
  while (true) {
    const std::vector<size_t> asked = tuner.ask(24);
    if (asked.empty()) break;
    for (const size_t i : asked) EXPECT_TRUE(seen.insert(i).second);
    for (const size_t i : asked) tuner.tell(i, land.run(i));
  }
  EXPECT_EQ(seen.size(), land.space.points.size());
}

TEST(Tuner, TheSameSeedAndResultsGiveTheSameTrials) {
  const Landscape land;
  std::vector<size_t> first, second;
  for (std::vector<size_t>* trials : {&first, &second}) {
    Tuner tuner(land.space, {}, {.seed = 11});
    for (int i = 0; i < 15; ++i) {
      trials->push_back(tuner.ask(1)[0]);
      tuner.tell(trials->back(), land.run(trials->back()));
    }
  }
  EXPECT_EQ(first, second);
}

TEST(Tuner, WhereEverythingFailsItGoesOnElsewhere) {
  const Landscape land;
  Tuner tuner(land.space, {}, {.seed = 2});
  for (int i = 0; i < 12; ++i) tuner.tell(tuner.ask(1)[0], {Outcome::kFailed, 0});
  EXPECT_EQ(tuner.best(), std::nullopt);
  EXPECT_EQ(tuner.ask(3).size(), 3u);
}

TEST(Tuner, WhatIsExpectedAfterAllPointsIsWhatWasSeen) {
  const Landscape land;
  Tuner tuner(land.space, {}, {.seed = 3});
  for (size_t i = 0; i < land.space.points.size(); i += 3)
    tuner.tell(i, {Outcome::kRan, land.seconds(i)});
  tuner.ask(1);
  const std::vector<double> expected = tuner.expected();
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    worst = std::max(worst, std::abs(expected[i] - std::log(land.seconds(i))));
  EXPECT_LT(worst, 0.25);
}

TEST(Outcome, NamesAreReadBack) {
  for (const Outcome o :
       {Outcome::kRan, Outcome::kOutOfMemory, Outcome::kTimeOut, Outcome::kFailed})
    EXPECT_EQ(parse_outcome(name_of(o)), o);
}

}  // namespace
}  // namespace tessera::plan
