#include "report/screen.h"

#include <cmath>

#include "report/follow.h"
#include "tests/report/run_folder.h"

namespace tessera::report {
namespace {

int columns_of(const std::string& line) {
  int n = 0;
  for (const char c : line) n += (c & 0xc0) != 0x80;
  return n;
}

TEST(Braille, DrawsARisingLine) {
  // Dots of column x are from y(x) to the value before, in a grid of 4 × 4.
  const std::vector<double> values = {0, 1, 2, 3};
  EXPECT_EQ(braille(values, 2, 1), std::vector<std::string>{"⣠⠞"});
}

TEST(Braille, DrawsExtremesOfManyValues) {
  std::vector<double> values(10000, 0);
  values[7000] = 1;
  const std::vector<std::string> lines = braille(values, 10, 3);
  ASSERT_EQ(lines.size(), 3u);
  // Column 14 of 20 is the left half of the eighth character.
  EXPECT_EQ(lines[0], "       ⡇  ");
  EXPECT_EQ(lines[2], "⣀⣀⣀⣀⣀⣀⣀⣇⣀⣀");
}

TEST(Braille, LeavesOutWhatIsNotFinite) {
  const double nan = std::nan("");
  EXPECT_EQ(braille(std::vector<double>{nan, nan}, 2, 1), std::vector<std::string>{"  "});
  EXPECT_EQ(braille({}, 2, 1), std::vector<std::string>{"  "});
  EXPECT_EQ(braille(std::vector<double>{1, nan}, 1, 1)[0], "⠄");
}

class Screen : public RunFolder {};

TEST_F(Screen, FitsTheTerminal) {
  put(run("r") / "metrics.jsonl", metrics(500));
  put(run("r") / "run.yaml", "schedule: { steps: 1000 }\n");
  put(run("r") / "log.txt",
      "2026-11-24 09:00:00.000 tessera 0.1.0 · run r\n"
      "2026-11-24 09:00:00.000 layout    8 ranks = data 8\n"
      "2026-11-24 09:00:00.000 warning: one\x1b[2J\n  two\n");
  const RunData r = read_run(run("r"));
  const std::vector<std::string> lines = screen(r, "running", {}, {80, 24});
  EXPECT_EQ(lines[0], "r · step 500/1,000 · left 4.2 minutes · running");
  EXPECT_EQ(lines[1], "8 ranks = data 8");
  const std::string last = lines.back();
  EXPECT_EQ(last, "2026-11-24 09:00:00 warning: one\\x1b[2J");
  const auto with = [&](const std::string& text) {
    return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find(text) != std::string::npos;
    });
  };
  EXPECT_TRUE(with("loss 0.0200  norm 1.500  lr 1.00e-03"));
  EXPECT_TRUE(with("2.05 k tokens/s  matrix rate 25.0 %  step 500.00 ms"));
  for (int rows = 1; rows < 40; rows += 3)
    for (int columns = 1; columns < 120; columns += 7) {
      const auto small = screen(r, "running", {"rank 0 runs", "rank 1 waits"}, {columns, rows});
      EXPECT_LE(std::ssize(small), rows);
      for (const std::string& line : small) EXPECT_LE(columns_of(line), columns);
    }
}

TEST_F(Screen, APreferenceRunCountsPairs) {
  put(run("r") / "metrics.jsonl",
      R"({"step":1,"tokens":4,"loss":0.69,"tokens_per_s":120,"rewards_chosen":0.5,)"
      R"("rewards_rejected":0.25,"rewards_margins":0.25,"rewards_accuracies":0.75})"
      "\n"
      R"({"step":1,"name":"held","validation_loss":0.6,"validation_rewards_margins":0.5,)"
      R"("validation_rewards_accuracies":0.25,"validation_logps_chosen":-9})"
      "\n");
  put(run("r") / "run.yaml", "objective: { kind: dpo }\n");
  const auto lines = screen(read_run(run("r")), "running", {}, {100, 24});
  const auto with = [&](const std::string& text) {
    return std::find(lines.begin(), lines.end(), text) != lines.end();
  };
  EXPECT_TRUE(
      with("answers  accuracy 75.0 %  margin 0.2500  reward chosen 0.5000  rejected 0.2500"));
  EXPECT_TRUE(with("validation  held 0.6000  margin 0.5000  accuracy 25.0 %"));
  EXPECT_TRUE(std::any_of(lines.begin(), lines.end(),
                          [](const std::string& line) { return line.starts_with("120 pairs/s"); }));
}

TEST_F(Screen, ShowsARunWithoutSteps) {
  put(run("r") / "log.txt", "2026-11-24 09:00:00.000 error: no space\n");
  const auto lines = screen(read_run(run("r")), "not running", {}, {80, 24});
  EXPECT_EQ(lines[0], "r · no step yet · not running");
  EXPECT_EQ(lines.back(), "2026-11-24 09:00:00 error: no space");
}

TEST_F(Screen, ShowsWhatRanksDo) {
  const auto rank = [](int number, const char* state, const char* doing, double since_s,
                       bool waits) {
    return fmt::format(
        R"({{"rank":{},"state":"{}","step":7,"doing":"{}","since_s":{},"waits":{}}})", number,
        state, doing, since_s, waits);
  };
  put(run("r") / "ranks.json",
      fmt::format(R"({{"ranks":[{},{},{},{},{}]}})", rank(0, "runs", "all_reduce", 12, true),
                  rank(1, "runs", "all_reduce", 12.5, true), rank(2, "runs", "matmul", 0.1, false),
                  rank(3, "runs", "all_reduce", 11, true), rank(4, "died", "", 3, false)));
  const std::vector<std::string> lines = rank_lines(run("r"));
  const std::vector<std::string> expected = {"ranks 0-1, 3 wait 12.5 s at step 7: all_reduce",
                                             "rank 4: died", "rank 2 runs 0.1 s at step 7: matmul"};
  EXPECT_EQ(lines, expected);
  put(run("r") / "metrics.jsonl", metrics(5));
  const auto shown = screen(read_run(run("r")), "running", lines, {80, 24});
  for (const std::string& line : expected)
    EXPECT_NE(std::find(shown.begin(), shown.end(), line), shown.end()) << line;
  // A file that is damaged shows nothing.
  for (const char* text : {"", "{", "[]", R"({"ranks":3})", R"({"ranks":[1]})"}) {
    put(run("r") / "ranks.json", text);
    EXPECT_EQ(rank_lines(run("r")), std::vector<std::string>()) << text;
  }
  EXPECT_EQ(rank_lines(run("absent")), std::vector<std::string>());
}

class Follow : public RunFolder {
 protected:
  void append(const std::string& file, const std::string& text) const {
    std::ofstream(run("r") / file, std::ios::app | std::ios::binary) << text;
  }
};

// Written in pieces of any size, the metrics are read as if they had been there at once.
TEST_F(Follow, ReadsAFileThatGrows) {
  const std::string whole = metrics(40);
  for (const size_t piece : {1u, 7u, 300u, 5000u}) {
    put(run("r") / "metrics.jsonl", "");
    RunFollower follower(run("r"));
    for (size_t at = 0; at < whole.size(); at += piece) {
      append("metrics.jsonl", whole.substr(at, piece));
      follower.update();
    }
    EXPECT_EQ(follower.run().steps.step, read_run(run("r")).steps.step);
    EXPECT_EQ(follower.run().steps.step.size(), 40u);
    EXPECT_TRUE(follower.run().left_out.empty());
  }
}

TEST_F(Follow, CountsLinesThatAreNotInOrder) {
  put(run("r") / "metrics.jsonl", metrics(4));
  RunFollower follower(run("r"));
  EXPECT_EQ(order_warning(follower.run()), "");
  append("metrics.jsonl", metrics(4));
  follower.update();
  EXPECT_EQ(order_warning(follower.run()), order_warning(read_run(run("r"))));
  EXPECT_EQ(follower.run().line_order.repeated, 4);
}

// A resume removes later lines and writes others, by shortening the file or by a new one.
TEST_F(Follow, ReadsAFileThatWasCutBack) {
  const std::string ten = metrics(10), five = metrics(5);
  for (const bool grows : {false, true}) {
    put(run("r") / "metrics.jsonl", ten);
    RunFollower follower(run("r"));
    std::string other = five + "{\"step\":6,\"loss\":77}\n";
    if (grows)
      other += ten.substr(five.size()) + "{\"step\":11,\"loss\":1}\n{\"step\":12,\"loss\":1}\n";
    put(run("r") / "metrics.jsonl", other);
    follower.update();
    EXPECT_EQ(follower.run().steps.step, read_run(run("r")).steps.step);
    EXPECT_EQ(follower.run().steps.values[Column::kLoss],
              read_run(run("r")).steps.values[Column::kLoss]);
  }
}

TEST_F(Follow, ReadsNewEventsAndTheFirstMetrics) {
  put(run("r") / "log.txt", "2026-11-24 09:00:00.000 warning: one\n");
  RunFollower follower(run("r"));
  EXPECT_EQ(follower.run().log.events.size(), 1u);
  append("log.txt", "2026-11-24 09:00:01.000 warning: two\n");
  put(run("r") / "metrics.jsonl", metrics(3));
  follower.update();
  EXPECT_EQ(follower.run().log.events.size(), 2u);
  EXPECT_EQ(follower.run().steps.step.size(), 3u);
  std::filesystem::remove_all(run("r"));
  EXPECT_THROW(follower.update(), Error);
}

}  // namespace
}  // namespace tessera::report
