#include "launch/restart.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera::launch {
namespace {

AttemptEnd end_at(int64_t step, FailureKind kind = FailureKind::kDied, int rank = 1) {
  return {{kind, {rank}, step}, "report"};
}

TEST(AfterFailure, ThePauseGrowsWithoutProgress) {
  const RestartOptions o{10, 5, 60};
  EXPECT_EQ(after_failure(o, {end_at(10)}).pause_s, 5);
  EXPECT_EQ(after_failure(o, {end_at(10), end_at(10)}).pause_s, 10);
  EXPECT_EQ(after_failure(o, {end_at(10), end_at(10), end_at(9)}).pause_s, 20);
  EXPECT_EQ(after_failure(o, {end_at(10), end_at(10), end_at(40)}).pause_s, 5);
  EXPECT_EQ(after_failure(o, std::vector<AttemptEnd>(8, end_at(10))).pause_s, 60);
}

TEST(AfterFailure, Ends) {
  const RestartOptions o{2, 5, 60};
  EXPECT_FALSE(after_failure({}, {end_at(10)}).again);
  EXPECT_TRUE(after_failure(o, {end_at(1), end_at(2)}).again);
  EXPECT_FALSE(after_failure(o, {end_at(1), end_at(2), end_at(3)}).again);
}

TEST(AfterFailure, WhatWouldComeAgainIsNotTriedAgain) {
  const RestartOptions o{5, 5, 60};
  EXPECT_FALSE(after_failure(o, {end_at(0, FailureKind::kDisagree)}).again);
  EXPECT_FALSE(after_failure(o, {end_at(0, FailureKind::kError)}).again);
  EXPECT_TRUE(after_failure(o, {end_at(4, FailureKind::kError)}).again);
  EXPECT_FALSE(
      after_failure(o, {end_at(4, FailureKind::kError), end_at(4, FailureKind::kError)}).again);
  EXPECT_TRUE(
      after_failure(o, {end_at(4, FailureKind::kError), end_at(6, FailureKind::kError)}).again);
  EXPECT_TRUE(after_failure(o, {end_at(0, FailureKind::kDied)}).again);
}

TEST(AfterFailure, F6_ANumericFailureIsNotTriedAgain) {
  const RestartOptions o{5, 5, 60};
  AttemptEnd numeric = end_at(40, FailureKind::kError);
  numeric.failure.code = kNumericExitCode;
  EXPECT_FALSE(after_failure(o, {numeric}).again);
  EXPECT_NE(after_failure(o, {numeric}).why.find("numeric failure"), std::string::npos);
  EXPECT_FALSE(after_failure(o, {end_at(10), numeric}).again);
}

TEST(LargestData, DividesTheBatch) {
  EXPECT_EQ(largest_data(8, {64, 4, 1, 0}), 8);
  EXPECT_EQ(largest_data(7, {64, 4, 1, 0}), 4);
  EXPECT_EQ(largest_data(7, {48, 4, 1, 0}), 6);
  EXPECT_EQ(largest_data(7, {64, 4, 2, 0}), 2);
  EXPECT_EQ(largest_data(7, {48, 4, 1, 4}), 4);
  EXPECT_EQ(largest_data(3, {48, 4, 1, 4}), std::nullopt);
  EXPECT_EQ(largest_data(3, {48, 4, 4, 0}), std::nullopt);
}

TEST(Smaller, WithoutTheLostHost) {
  RankHosts w;
  w.ranks = 8;
  w.hosts = {{"n01", 2}, {"n02", 2}, {"n03", 4}};
  const std::vector<std::string> names = {"n01", "n01", "n02", "n02", "n03", "n03", "n03", "n03"};
  const auto next = smaller(w, {FailureKind::kSilent, {3}, 9}, names, {24, 1, 1, 0});
  ASSERT_TRUE(next);
  EXPECT_EQ(host_list(next->hosts), "n01:2,n03:4");
  EXPECT_EQ(next->ranks, 6);
  EXPECT_EQ(next->data, 6);
  w.hosts.clear();  // SLURM's
  const auto slurm = smaller(w, {FailureKind::kDied, {5}, 9}, names, {24, 1, 2, 0});
  ASSERT_TRUE(slurm);
  EXPECT_EQ(slurm->left_out, std::vector<std::string>{"n03"});
  EXPECT_EQ(slurm->data, 2);
  EXPECT_EQ(slurm->ranks, 4);
}

TEST(Smaller, OnOneHost) {
  RankHosts w;
  w.ranks = 4;
  const std::vector<std::string> names(4, "n01");
  const auto next = smaller(w, {FailureKind::kDied, {2}, 9}, names, {24, 1, 1, 0});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->ranks, 3);
  EXPECT_TRUE(next->left_out.empty());
  EXPECT_FALSE(smaller(w, {FailureKind::kDied, {2}, 9}, names, {24, 1, 4, 0}));
}

}  // namespace
}  // namespace tessera::launch
