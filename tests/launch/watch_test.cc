#include "launch/watch.h"

#include <gtest/gtest.h>

namespace tessera::launch {
namespace {

// Ranks that report to a watch, on a clock of the test's own.
class WatchTest : public testing::Test {
 protected:
  void start(int n, int silent_at_start = -1) {
    WatchOptions o;
    o.ranks = n;
    watch_.emplace(o, now_);
    for (int i = 0; i < n; ++i)
      if (i != silent_at_start) hello(i, n);
  }

  void hello(int rank, int ranks) {
    Message m;
    m.kind = MessageKind::kHello;
    m.rank = rank;
    m.ranks = ranks;
    m.host = "n0" + std::to_string(rank / 2 + 1);
    m.pid = 1000 + rank;
    m.version = "0.1.0";
    m.clock_s = 1e9 + now_;
    m.memory_bytes = memory_bytes_;
    watch_->heard(now_, rank, m);
    Message facts;
    facts.kind = MessageKind::kFacts;
    facts.text = "{}";
    watch_->heard(now_, rank, facts);
  }

  void beat(int rank, int64_t step, const std::string& text, bool waits = false, double since = 0) {
    Message m;
    m.kind = MessageKind::kBeat;
    m.step = step;
    m.text = text;
    m.waits = waits;
    m.since_s = since;
    watch_->heard(now_, rank, m);
  }

  void say(int rank, MessageKind kind, const std::string& text = "") {
    Message m;
    m.kind = kind;
    m.text = text;
    watch_->heard(now_, rank, m);
  }

  // Time passes in looks; `quiet` ranks do not beat.
  void pass(double seconds, std::vector<int> quiet = {}, int ranks = 4) {
    for (double t = 0; t < seconds; t += 0.25) {
      now_ += 0.25;
      for (int i = 0; i < ranks; ++i)
        if (std::find(quiet.begin(), quiet.end(), i) == quiet.end())
          beat(i, 12, "all_reduce of gradients", true, t);
      watch_->tick(now_);
      if (watch_->verdict()) return;
    }
  }

  double now_ = 100;
  int64_t memory_bytes_ = 0;
  std::optional<Watch> watch_;
};

TEST_F(WatchTest, HealthyRanksGiveNoAlarmHoweverLongAnOpTakes) {
  start(4);
  pass(3600);
  EXPECT_FALSE(watch_->verdict());
  for (int i = 0; i < 4; ++i) say(i, MessageKind::kBye);
  for (int i = 0; i < 4; ++i) watch_->closed(now_, i);
  pass(20, {0, 1, 2, 3});
  EXPECT_FALSE(watch_->verdict());
  EXPECT_TRUE(watch_->all_left());
}

TEST_F(WatchTest, ASilentRankIsNamedWithThePlaceOfAll) {
  start(4);
  beat(2, 12, "backward of layer 11");
  pass(10, {2});
  ASSERT_TRUE(watch_->verdict());
  EXPECT_EQ(watch_->verdict()->loss, Loss::kSilent);
  EXPECT_EQ(watch_->verdict()->ranks, std::vector<int>{2});
  EXPECT_LT(now_ - 100, 5.1);
  EXPECT_EQ(watch_->report(),
            "rank 2 (host n02, process 1002) stopped answering 4.5 s ago, in step 12, backward of "
            "layer 11. Ranks 0, 1 and 3 were in step 12, all_reduce of gradients, waiting for 4.2 "
            "s.");
}

TEST_F(WatchTest, AWholeHostIsOneLoss) {
  start(4);
  beat(2, 12, "forward of layer 1");
  beat(3, 12, "forward of layer 2");
  pass(10, {2, 3});
  ASSERT_TRUE(watch_->verdict());
  EXPECT_EQ(watch_->verdict()->ranks, (std::vector<int>{2, 3}));
  EXPECT_NE(watch_->report().find("ranks 2 and 3, all of host n02, stopped answering"),
            std::string::npos)
      << watch_->report();
}

TEST_F(WatchTest, TheFirstToDieIsNamedNotThoseThatFollow) {
  start(4);
  beat(1, 7, "forward of layer 3");
  for (const int i : {0, 2, 3}) beat(i, 7, "reduce_scatter of layer2.weights", true, 2.5);
  watch_->closed(now_, 1);
  now_ += 0.1;
  for (const int i : {0, 2, 3}) watch_->closed(now_, i);
  watch_->ended_by(1, "signal 9, Killed");
  watch_->printed(1, "out of luck");
  now_ += 0.5;
  watch_->tick(now_);
  ASSERT_TRUE(watch_->verdict());
  EXPECT_EQ(watch_->verdict()->loss, Loss::kDied);
  EXPECT_EQ(watch_->verdict()->step, 7);
  EXPECT_EQ(watch_->report(),
            "rank 1 (host n01, process 1001) died (signal 9, Killed); 0.0 s earlier it was in step "
            "7, forward of layer 3. "
            "Ranks 0, 2 and 3 were in step 7, reduce_scatter of layer2.weights, waiting for 3.1 s. "
            "Its last line: \"out of luck\".");
}

TEST_F(WatchTest, ARankThatDiesBeforeItsHelloIsNamedByItsEnd) {
  start(4, 3);
  watch_->closed(now_, 2);  // mpirun ended it, because rank 3 was gone
  now_ += 0.6;
  watch_->tick(now_);
  ASSERT_TRUE(watch_->verdict());
  EXPECT_NE(watch_->report().find("Rank 3 had not reported, and may have died first."),
            std::string::npos);
  watch_->ended_by(3, "signal 9, Killed");
  EXPECT_EQ(watch_->verdict()->ranks, (std::vector<int>{3}));
  EXPECT_EQ(watch_->report(),
            "rank 3 died (signal 9, Killed) before it had reported. Ranks 0-2 were in startup.");
}

TEST_F(WatchTest, AnErrorOfAllRanksIsToldOnce) {
  start(4);
  for (int i = 0; i < 4; ++i) {
    beat(i, 3, "update");
    say(i, MessageKind::kFail,
        i == 0 ? "loss is NaN at step 3\n  norms 1 2" : "loss is NaN at step 3\n  norms");
    watch_->closed(now_, i);
  }
  now_ += 0.6;
  watch_->tick(now_);
  ASSERT_TRUE(watch_->verdict());
  EXPECT_EQ(watch_->verdict()->ranks, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(watch_->report(),
            "ranks 0-3: loss is NaN at step 3\n  norms 1 2\n  It happened in step 3, update.");
}

TEST_F(WatchTest, AnErrorThatFollowsAnotherIsToldAfterIt) {
  start(2);
  say(1, MessageKind::kFail, "the disk is full");
  say(0, MessageKind::kFail, "rank 1 is gone");
  now_ += 0.6;
  watch_->tick(now_);
  EXPECT_NE(watch_->report().find("rank 1 (host n01, process 1001): the disk is full"),
            std::string::npos);
  EXPECT_NE(watch_->report().find("Rank 0 then reported: rank 1 is gone"), std::string::npos);
}

TEST_F(WatchTest, TimeInWhichTheWatcherDidNotRunAgesNobody) {
  start(4);
  pass(1);
  now_ += 3600;  // the machine slept
  watch_->tick(now_);
  EXPECT_FALSE(watch_->verdict());
  pass(4);
  EXPECT_FALSE(watch_->verdict());
}

TEST_F(WatchTest, ARankThatNeverComes) {
  start(4, 3);
  pass(119.5, {3});
  EXPECT_FALSE(watch_->verdict());
  pass(2, {3});
  ASSERT_TRUE(watch_->verdict());
  EXPECT_EQ(watch_->verdict()->loss, Loss::kNeverCame);
  EXPECT_NE(watch_->report().find("rank 3 of 4 did not report"), std::string::npos);
}

TEST_F(WatchTest, TheStarterEndsBeforeTheRanksDo) {
  start(2, 1);
  watch_->starter_ended(now_, "mpirun", 213, "  no such host: n07");
  now_ += 0.6;
  watch_->tick(now_);
  ASSERT_TRUE(watch_->verdict());
  EXPECT_EQ(watch_->report(),
            "mpirun ended with code 213:\n  no such host: n07\n  before rank 1 had reported");
}

TEST_F(WatchTest, RanksThatCountOtherwise) {
  start(2, 1);
  hello(1, 1);
  now_ += 0.6;
  watch_->tick(now_);
  ASSERT_TRUE(watch_->verdict());
  EXPECT_EQ(watch_->verdict()->loss, Loss::kDisagree);
  EXPECT_NE(watch_->report().find("rank 1 on n01 sees 1 ranks, but 2 were started"),
            std::string::npos);
}

TEST_F(WatchTest, MemoryIsNamedWhereItWasFull) {
  memory_bytes_ = int64_t{24} << 30;
  start(2);
  Message m;
  m.kind = MessageKind::kBeat;
  m.resident_bytes = int64_t{23} << 30;
  watch_->heard(now_, 1, m);
  watch_->closed(now_, 1);
  now_ += 0.6;
  watch_->tick(now_);
  EXPECT_NE(watch_->report().find("It used 23.0 of its limit of 24.0 GiB"), std::string::npos)
      << watch_->report();
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
