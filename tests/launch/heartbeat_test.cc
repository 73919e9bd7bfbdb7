#include "launch/heartbeat.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"
#include "launch/receiver.h"

namespace tessera::launch {
namespace {

double steady_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class HeartbeatTest : public testing::Test {
 protected:
  HeartbeatOptions options(const std::string& token = "secret") {
    HeartbeatOptions o;
    o.monitor = {token, receiver_.port(), {"127.0.0.1"}};
    o.hello.rank = 3;
    o.hello.ranks = 4;
    o.hello.host = "n02";
    o.now_s = steady_s;
    o.wall_s = [] { return 1e9; };
    o.end_process = [this](const std::string& why) { ended_ = "ended: " + why; };
    o.period_s = 0.02;
    o.patience_s = 0.4;
    return o;
  }

  // Reads until `wanted` says so, for five seconds at most.
  bool read_until(auto wanted) {
    const double until = steady_s() + 5;
    while (steady_s() < until) {
      for (const RankEvent& e : receiver_.read()) {
        if (wanted(e)) return true;
        if (e.message.kind == MessageKind::kError) receiver_.tell(e.rank, MessageKind::kAck);
      }
      receiver_.tell_all(MessageKind::kPing);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  std::string wait_for_end() {
    const double until = steady_s() + 5;
    while (ended_.load().empty() && steady_s() < until) {
      receiver_.read();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return ended_;
  }

  struct Text {  // written by the heartbeat's thread
    std::string load() const {
      const std::lock_guard lock(mutex);
      return text;
    }
    operator std::string() const { return load(); }
    Text& operator=(std::string t) {
      const std::lock_guard lock(mutex);
      text = std::move(t);
      return *this;
    }
    mutable std::mutex mutex;
    std::string text;
  };

  Receiver receiver_{"secret", 4, Interfaces::kLoopback};
  Text ended_;
};

TEST_F(HeartbeatTest, SaysWhoAndWhat) {
  Heartbeat h(options());
  h.facts("{}");
  h.say(12, "forward of layer 3", true);
  bool hello = false, facts = false;
  EXPECT_TRUE(read_until([&](const RankEvent& e) {
    hello = hello || (e.message.kind == MessageKind::kHello && e.message.host == "n02");
    facts = facts || e.message.kind == MessageKind::kFacts;
    return e.rank == 3 && e.message.kind == MessageKind::kHeartbeat && e.message.step == 12 &&
           e.message.text == "forward of layer 3" && e.message.waits;
  }));
  EXPECT_TRUE(hello);
  EXPECT_TRUE(facts);
}

TEST_F(HeartbeatTest, WhatIsSaidAgainBeganWhenItWasSaidFirst) {
  Heartbeat h(options());
  h.say(12, "all_reduce", true);
  EXPECT_TRUE(read_until([&](const RankEvent& e) {
    h.say(12, "all_reduce", true);
    return e.message.kind == MessageKind::kHeartbeat && e.message.since_s > 0.2;
  }));
  h.say(13, "all_reduce", true);
  EXPECT_TRUE(read_until([&](const RankEvent& e) {
    return e.message.kind == MessageKind::kHeartbeat && e.message.step == 13 &&
           e.message.since_s < 0.2;
  }));
}

TEST_F(HeartbeatTest, AnErrorArrivesBeforeFailReturns) {
  auto h = std::make_unique<Heartbeat>(options());
  bool heard = false;
  std::thread watcher([&] { heard = read_until([](const RankEvent& e) { return e.closed; }); });
  h->say(5, "update");
  EXPECT_TRUE(h->fail("the disk is full"));
  h.reset();
  watcher.join();
  EXPECT_TRUE(heard);
}

TEST_F(HeartbeatTest, ObeysStopAndEnd) {
  Heartbeat h(options());
  ASSERT_TRUE(read_until([](const RankEvent& e) { return e.message.kind == MessageKind::kHello; }));
  EXPECT_FALSE(h.asked_to_stop());
  receiver_.tell(3, MessageKind::kStop);
  for (int i = 0; i < 500 && !h.asked_to_stop(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(h.asked_to_stop());
  receiver_.tell_all(MessageKind::kEnd);
  EXPECT_EQ(wait_for_end(), "ended: ");
}

TEST_F(HeartbeatTest, EndsByItselfWhenItHearsNothing) {
  Heartbeat h(options());
  EXPECT_NE(wait_for_end().find("this host is cut off"), std::string::npos) << ended_.load();
}

TEST_F(HeartbeatTest, EndsByItselfWhenTheWatcherIsGone) {
  auto other = std::make_unique<Receiver>("secret", 4, Interfaces::kLoopback);
  HeartbeatOptions o = options();
  o.monitor.port = other->port();
  Heartbeat h(o);
  other.reset();
  EXPECT_NE(wait_for_end().find("is gone"), std::string::npos) << ended_.load();
}

TEST_F(HeartbeatTest, WithoutTheTokenNobodyListens) {
  Heartbeat h(options("guess"));
  EXPECT_NE(wait_for_end(), "");
}

TEST_F(HeartbeatTest, AStrangerDoesNotMatter) {
  std::string why;
  const Descriptor stranger = connect_to("127.0.0.1", receiver_.port(), 1, why);
  ASSERT_TRUE(stranger.open()) << why;
  std::string bytes = "GET / HTTP/1.1\r\n\r\n";
  ASSERT_TRUE(send_some(stranger, bytes));
  Heartbeat h(options());
  EXPECT_TRUE(
      read_until([](const RankEvent& e) { return e.message.kind == MessageKind::kHeartbeat; }));
}

// Connections without the token may not use up memory or descriptors: each has a small buffer, and
// the oldest are closed for new ones.
TEST_F(HeartbeatTest, L1_StrangersAreLimited) {
  std::string why;
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(connect_to("127.0.0.1", receiver_.port(), 1, why));
    ASSERT_TRUE(strangers.back().open()) << why;
    receiver_.read();
  }
  const auto closed = [](const Descriptor& d) {
    std::string bytes;
    return receive(d, bytes) == Received::kClosed;
  };
  constexpr int kRanksAndSpare = 4 + 64;
  EXPECT_EQ(std::count_if(strangers.begin(), strangers.end(), closed), 200 - kRanksAndSpare);
  EXPECT_TRUE(closed(strangers.front()));
  EXPECT_FALSE(closed(strangers.back()));
  std::string flood(20000, 'x');  // more than a hello can be
  send_some(strangers.back(), flood);
  Heartbeat h(options());
  EXPECT_TRUE(
      read_until([](const RankEvent& e) { return e.message.kind == MessageKind::kHeartbeat; }));
  EXPECT_TRUE(closed(strangers.back()));
}

TEST(Socket, L1_LoopbackAloneIsNotReachedAtOtherAddresses) {
  int port = 0;
  const Descriptor listener = listen_on(Interfaces::kLoopback, port);
  std::string why;
  EXPECT_TRUE(connect_to("127.0.0.1", port, 1, why).open()) << why;
  for (const std::string& address : own_addresses()) {
    if (address == "127.0.0.1") continue;
    EXPECT_FALSE(connect_to(address, port, 1, why).open()) << address;
  }
}

TEST_F(HeartbeatTest, NamesTheAddressesThatDoNotAnswer) {
  HeartbeatOptions o = options();
  int port = 0;
  { const Descriptor free = listen_on(Interfaces::kAll, port); }
  o.monitor.port = port;
  o.connecting_s = 0.1;
  try {
    Heartbeat h(o);
    FAIL() << "connected to nobody";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("127.0.0.1 (Connection refused)"), std::string::npos)
        << e.what();
  }
}

TEST_F(HeartbeatTest, WithoutAHomeAllIsNothing) {
  Heartbeat h;
  h.say(1, "forward");
  h.facts("{}");
  EXPECT_FALSE(h.fail("x"));
  EXPECT_FALSE(h.leave());
  EXPECT_FALSE(h.asked_to_stop());
}

}  // namespace
}  // namespace tessera::launch
