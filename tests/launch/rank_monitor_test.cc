#include "launch/rank_monitor.h"

#include <gtest/gtest.h>

namespace tessera::launch {
namespace {

// Ranks that report to a watch, on a clock of the test's own.
class RankMonitorTest : public testing::Test {
 protected:
  void start(int n, int silent_at_start = -1) {
    RankMonitorOptions o;
    o.ranks = n;
    monitor_.emplace(o, now_);
    for (int i = 0; i < n; ++i)
      if (i != silent_at_start) hello(i, n);
  }

  void hello(int rank, int ranks) {
    HeartbeatMessage m;
    m.kind = MessageKind::kHello;
    m.rank = rank;
    m.ranks = ranks;
    m.host = "n0" + std::to_string(rank / 2 + 1);
    m.pid = 1000 + rank;
    m.version = "0.1.0";
    m.clock_s = 1e9 + now_;
    m.memory_bytes = memory_bytes_;
    monitor_->heard(now_, rank, m);
    HeartbeatMessage facts;
    facts.kind = MessageKind::kFacts;
    facts.text = "{}";
    monitor_->heard(now_, rank, facts);
  }

  void beat(int rank, int64_t step, const std::string& text, bool waits = false, double since = 0) {
    HeartbeatMessage m;
    m.kind = MessageKind::kHeartbeat;
    m.step = step;
    m.text = text;
    m.waits = waits;
    m.since_s = since;
    monitor_->heard(now_, rank, m);
  }

  void say(int rank, MessageKind kind, const std::string& text = "") {
    HeartbeatMessage m;
    m.kind = kind;
    m.text = text;
    monitor_->heard(now_, rank, m);
  }

  // Time passes in looks; `quiet` ranks do not beat.
  void pass(double seconds, std::vector<int> quiet = {}, int ranks = 4) {
    for (double t = 0; t < seconds; t += 0.25) {
      now_ += 0.25;
      for (int i = 0; i < ranks; ++i)
        if (std::find(quiet.begin(), quiet.end(), i) == quiet.end())
          beat(i, 12, "all_reduce of gradients", true, t);
      monitor_->tick(now_);
      if (monitor_->failure()) return;
    }
  }

  double now_ = 100;
  int64_t memory_bytes_ = 0;
  std::optional<RankMonitor> monitor_;
};

TEST_F(RankMonitorTest, HealthyRanksGiveNoAlarmHoweverLongAnOpTakes) {
  start(4);
  pass(3600);
  EXPECT_FALSE(monitor_->failure());
  for (int i = 0; i < 4; ++i) say(i, MessageKind::kBye);
  for (int i = 0; i < 4; ++i) monitor_->closed(now_, i);
  pass(20, {0, 1, 2, 3});
  EXPECT_FALSE(monitor_->failure());
  EXPECT_TRUE(monitor_->all_left());
}

TEST_F(RankMonitorTest, ASilentRankIsNamedWithThePlaceOfAll) {
  start(4);
  beat(2, 12, "backward of layer 11");
  pass(10, {2});
  ASSERT_TRUE(monitor_->failure());
  EXPECT_EQ(monitor_->failure()->kind, FailureKind::kSilent);
  EXPECT_EQ(monitor_->failure()->ranks, std::vector<int>{2});
  EXPECT_LT(now_ - 100, 5.1);
  EXPECT_EQ(monitor_->report(),
            "rank 2 (host n02, process 1002) stopped answering 4.5 s ago, in step 12, backward of "
            "layer 11. Ranks 0, 1 and 3 were in step 12, all_reduce of gradients, waiting for 4.2 "
            "s.");
}

TEST_F(RankMonitorTest, AWholeHostIsOneLoss) {
  start(4);
  beat(2, 12, "forward of layer 1");
  beat(3, 12, "forward of layer 2");
  pass(10, {2, 3});
  ASSERT_TRUE(monitor_->failure());
  EXPECT_EQ(monitor_->failure()->ranks, (std::vector<int>{2, 3}));
  EXPECT_NE(monitor_->report().find("ranks 2 and 3, all of host n02, stopped answering"),
            std::string::npos)
      << monitor_->report();
}

TEST_F(RankMonitorTest, TheFirstToDieIsNamedNotThoseThatFollow) {
  start(4);
  beat(1, 7, "forward of layer 3");
  for (const int i : {0, 2, 3}) beat(i, 7, "reduce_scatter of layer2.weights", true, 2.5);
  monitor_->closed(now_, 1);
  now_ += 0.1;
  for (const int i : {0, 2, 3}) monitor_->closed(now_, i);
  monitor_->ended_by(1, "signal 9, Killed");
  monitor_->printed(1, "out of luck");
  now_ += 0.5;
  monitor_->tick(now_);
  ASSERT_TRUE(monitor_->failure());
  EXPECT_EQ(monitor_->failure()->kind, FailureKind::kDied);
  EXPECT_EQ(monitor_->failure()->step, 7);
  EXPECT_EQ(monitor_->report(),
            "rank 1 (host n01, process 1001) died (signal 9, Killed); 0.0 s earlier it was in step "
            "7, forward of layer 3. "
            "Ranks 0, 2 and 3 were in step 7, reduce_scatter of layer2.weights, waiting for 3.1 s. "
            "Its last line: \"out of luck\".");
}

TEST_F(RankMonitorTest, ARankThatDiesBeforeItsHelloIsNamedByItsEnd) {
  start(4, 3);
  monitor_->closed(now_, 2);  // mpirun ended it, because rank 3 was gone
  now_ += 0.6;
  monitor_->tick(now_);
  ASSERT_TRUE(monitor_->failure());
  EXPECT_NE(monitor_->report().find("Rank 3 had not reported, and may have died first."),
            std::string::npos);
  monitor_->ended_by(3, "signal 9, Killed");
  EXPECT_EQ(monitor_->failure()->ranks, (std::vector<int>{3}));
  EXPECT_EQ(monitor_->report(),
            "rank 3 died (signal 9, Killed) before it had reported. Ranks 0-2 were in startup.");
}

TEST_F(RankMonitorTest, AnErrorOfAllRanksIsToldOnce) {
  start(4);
  for (int i = 0; i < 4; ++i) {
    beat(i, 3, "update");
    say(i, MessageKind::kError,
        i == 0 ? "loss is NaN at step 3\n  norms 1 2" : "loss is NaN at step 3\n  norms");
    monitor_->closed(now_, i);
  }
  now_ += 0.6;
  monitor_->tick(now_);
  ASSERT_TRUE(monitor_->failure());
  EXPECT_EQ(monitor_->failure()->ranks, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(monitor_->report(),
            "ranks 0-3: loss is NaN at step 3\n  norms 1 2\n  It happened in step 3, update.");
}

TEST_F(RankMonitorTest, AnErrorThatFollowsAnotherIsToldAfterIt) {
  start(2);
  say(1, MessageKind::kError, "the disk is full");
  say(0, MessageKind::kError, "rank 1 is gone");
  now_ += 0.6;
  monitor_->tick(now_);
  EXPECT_NE(monitor_->report().find("rank 1 (host n01, process 1001): the disk is full"),
            std::string::npos);
  EXPECT_NE(monitor_->report().find("Rank 0 then reported: rank 1 is gone"), std::string::npos);
}

TEST_F(RankMonitorTest, TimeInWhichTheWatcherDidNotRunAgesNobody) {
  start(4);
  pass(1);
  now_ += 3600;  // the machine slept
  monitor_->tick(now_);
  EXPECT_FALSE(monitor_->failure());
  pass(4);
  EXPECT_FALSE(monitor_->failure());
}

TEST_F(RankMonitorTest, ARankThatNeverComes) {
  start(4, 3);
  pass(119.5, {3});
  EXPECT_FALSE(monitor_->failure());
  pass(2, {3});
  ASSERT_TRUE(monitor_->failure());
  EXPECT_EQ(monitor_->failure()->kind, FailureKind::kNeverCame);
  EXPECT_NE(monitor_->report().find("rank 3 of 4 did not report"), std::string::npos);
}

TEST_F(RankMonitorTest, TheStarterEndsBeforeTheRanksDo) {
  start(2, 1);
  monitor_->launcher_ended(now_, "mpirun", 213, "  no such host: n07");
  now_ += 0.6;
  monitor_->tick(now_);
  ASSERT_TRUE(monitor_->failure());
  EXPECT_EQ(monitor_->report(),
            "mpirun ended with code 213:\n  no such host: n07\n  before rank 1 had reported");
}

TEST_F(RankMonitorTest, RanksThatCountOtherwise) {
  start(2, 1);
  hello(1, 1);
  now_ += 0.6;
  monitor_->tick(now_);
  ASSERT_TRUE(monitor_->failure());
  EXPECT_EQ(monitor_->failure()->kind, FailureKind::kDisagree);
  EXPECT_NE(monitor_->report().find("rank 1 on n01 sees 1 ranks, but 2 were started"),
            std::string::npos);
}

TEST_F(RankMonitorTest, MemoryIsNamedWhereItWasFull) {
  memory_bytes_ = int64_t{24} << 30;
  start(2);
  HeartbeatMessage m;
  m.kind = MessageKind::kHeartbeat;
  m.resident_bytes = int64_t{23} << 30;
  monitor_->heard(now_, 1, m);
  monitor_->closed(now_, 1);
  now_ += 0.6;
  monitor_->tick(now_);
  EXPECT_NE(monitor_->report().find("It used 23.0 of its limit of 24.0 GiB"), std::string::npos)
      << monitor_->report();
}

TEST(NameRanks, AsPeopleSay) {
  const auto name = [](std::vector<int> r) { return name_ranks(r); };
  EXPECT_EQ(name({4}), "rank 4");
  EXPECT_EQ(name({1, 3, 7}), "ranks 1, 3 and 7");
  EXPECT_EQ(name({0, 1, 2, 3, 4, 5, 6}), "ranks 0-6");
  EXPECT_EQ(name({0, 1, 5, 6, 7}), "ranks 0, 1 and 5-7");
}

}  // namespace
}  // namespace tessera::launch
