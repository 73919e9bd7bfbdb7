// Real mpirun, ranks that fail as they are told.
#include "launch/supervise.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "base/error.h"
#include "base/tree.h"
#include "launch/command.h"
#include "launch/monitor_endpoint.h"

namespace tessera::launch {
namespace {

double steady_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Supervise : public testing::Test {
 protected:
  Supervise() {
    std::string name = std::filesystem::temp_directory_path() / "tessera_supervise.XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~Supervise() override { std::filesystem::remove_all(folder_); }

  AttemptResult run(int ranks, std::vector<std::string> keys) {
    StartOptions start;
    start.ranks = ranks;
    start.root = geteuid() == 0;
    start.program = {FAKE_RANK, "run.yaml"};
    start.program.insert(start.program.end(), keys.begin(), keys.end());
    AttemptOptions o;
    o.command = start_command(start);
    o.addresses = own_addresses();
    o.monitor.ranks = ranks;
    o.monitor.silence_s = silence_s_;
    o.now_s = steady_s;
    o.stop_requests = [this] { return stop_at_ > 0 && steady_s() > stop_at_ ? 1 : 0; };
    o.rank_files = folder_;
    o.state_file = folder_ / "ranks.json";
    const Path out = folder_ / "out", err = folder_ / "err";
    o.out = std::fopen(out.c_str(), "w");
    o.err = std::fopen(err.c_str(), "w");
    const double began = steady_s();
    AttemptResult r = attempt(o);
    took_s_ = steady_s() - began;
    std::fclose(o.out);
    std::fclose(o.err);
    out_ = read_file(out);
    err_ = read_file(err);
    return r;
  }

  Path folder_;
  double silence_s_ = 3, took_s_ = 0, stop_at_ = 0;
  std::string out_, err_;
};

TEST_F(Supervise, AHealthyRun) {
  const AttemptResult r = run(4, {"steps=20"});
  EXPECT_FALSE(r.failure) << r.report;
  EXPECT_EQ(r.step, 20);
  EXPECT_NE(out_.find("from step 0\nleft at step 20"), std::string::npos) << out_;
  EXPECT_EQ(err_, "");
  EXPECT_NE(read_file(folder_ / "rank-0.txt").find("left at step 20"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "ranks.json"));  // removed at the end
}

// The file has the states at the time of the failure, before the other ranks are ended.
TEST_F(Supervise, StatesOfRanksAreInAFile) {
  ASSERT_TRUE(run(4, {"steps=100", "at=2:5:kill"}).failure);
  const Tree tree = parse_json(read_file(folder_ / "ranks.json"), "ranks.json");
  const Tree::List& ranks = *tree.find("ranks")->as_list();
  ASSERT_EQ(ranks.size(), 4u);
  for (size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_EQ(std::get<int64_t>(ranks[i].find("rank")->value), static_cast<int64_t>(i));
    EXPECT_EQ(*ranks[i].find("state")->as_string(), i == 2 ? "died" : "runs");
  }
  EXPECT_EQ(std::get<int64_t>(ranks[0].find("step")->value), 5);
  EXPECT_EQ(*ranks[0].find("doing")->as_string(), "all_reduce of gradients over data");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "ranks.json.part"));
}

// A progress bar that rewrites its line with '\r' sends no newline for megabytes.
TEST_F(Supervise, L2_ALineOfMegabytesIsPassedOn) {
  const AttemptResult r = run(2, {"steps=3", fmt::format("long_line={}", 5 << 20)});
  EXPECT_FALSE(r.failure) << r.report;
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '#'), 5 << 20);
  EXPECT_NE(out_.find("left at step 3"), std::string::npos);
}

TEST_F(Supervise, ARankThatIsKilled) {
  const AttemptResult r = run(4, {"steps=100", "at=2:5:kill"});
  ASSERT_TRUE(r.failure);
  EXPECT_EQ(r.failure->kind, FailureKind::kDied);
  EXPECT_EQ(r.failure->ranks, std::vector<int>{2});
  EXPECT_NE(r.report.find("rank 2 (host n02, process "), std::string::npos) << r.report;
  EXPECT_NE(r.report.find("died (signal 9, Killed); 0."), std::string::npos) << r.report;
  EXPECT_NE(r.report.find("Ranks 0, 1 and 3 were in step 5, all_reduce"), std::string::npos)
      << r.report;
  EXPECT_LT(r.ending_s, 6);
}

TEST_F(Supervise, ARankThatIsStopped) {
  const AttemptResult r = run(4, {"steps=100", "at=1:5:stop"});
  ASSERT_TRUE(r.failure);
  EXPECT_EQ(r.failure->kind, FailureKind::kSilent);
  EXPECT_EQ(r.failure->ranks, std::vector<int>{1});
  EXPECT_NE(r.report.find("stopped answering"), std::string::npos) << r.report;
  EXPECT_NE(r.report.find("all_reduce of gradients over data, waiting for"), std::string::npos)
      << r.report;
  EXPECT_LT(took_s_, 15);
}

TEST_F(Supervise, ARankThatLeavesWithoutAWord) {
  const AttemptResult r = run(3, {"steps=100", "at=1:5:exit"});
  ASSERT_TRUE(r.failure);
  EXPECT_EQ(r.failure->ranks, std::vector<int>{1});
  EXPECT_NE(r.report.find("Its last line: \"something unforeseen\""), std::string::npos)
      << r.report;
}

TEST_F(Supervise, ARankThatSaysAnError) {
  const AttemptResult r = run(3, {"steps=100", "at=1:5:error"});
  ASSERT_TRUE(r.failure);
  EXPECT_EQ(r.failure->kind, FailureKind::kError);
  EXPECT_NE(r.report.find(": the disk is full\n  It happened in step 5, forward of layer 3."),
            std::string::npos)
      << r.report;
}

TEST_F(Supervise, ARankThatNeverStarts) {
  const AttemptResult r = run(3, {"at=1:0:kill"});
  ASSERT_TRUE(r.failure);
  EXPECT_LT(took_s_, 10);
  // Begins its sentence where another's death was seen first.
  EXPECT_NE(r.report.find("ank 1 "), std::string::npos) << r.report;
}

TEST_F(Supervise, RanksThatDisagree) {
  EXPECT_NE(run(3, {"steps=100", "at=2:0:version"}).report.find("rank 2 on n02 runs tessera 0.1.1"),
            std::string::npos);
  EXPECT_NE(run(3, {"steps=100", "at=2:0:config"}).report.find("batch.global = 16, the others 8"),
            std::string::npos);
  const AttemptResult r = run(3, {"steps=20", "at=2:0:clock"});
  EXPECT_FALSE(r.failure) << r.report;
  EXPECT_NE(err_.find("warning: the clock of n02 is 35 s ahead"), std::string::npos) << err_;
}

TEST_F(Supervise, AProgramThatIsNotThere) {
  StartOptions start;
  start.root = geteuid() == 0;
  start.program = {"/no/such/program"};
  AttemptOptions o;
  o.command = start_command(start);
  o.addresses = own_addresses();
  o.now_s = steady_s;
  o.stop_requests = [] { return 0; };
  const AttemptResult r = attempt(o);
  ASSERT_TRUE(r.failure);
  EXPECT_NE(r.report.find("mpirun ended with code"), std::string::npos);
  EXPECT_NE(r.report.find("/no/such/program"), std::string::npos) << r.report;
  o.command = {"no-such-mpirun"};
  EXPECT_THROW(attempt(o), Error);
}

TEST_F(Supervise, TheUserAsksToStop) {
  stop_at_ = steady_s() + 3;
  const AttemptResult r = run(3, {"steps=10000"});
  EXPECT_FALSE(r.failure) << r.report;
  EXPECT_TRUE(r.stopped);
  EXPECT_NE(out_.find("left at step"), std::string::npos) << out_;
  EXPECT_LT(took_s_, 12);
}

}  // namespace
}  // namespace tessera::launch
