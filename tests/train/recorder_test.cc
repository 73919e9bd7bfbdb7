#include "train/recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/tree.h"

namespace tessera {
namespace {

class RecorderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.directory =
        std::filesystem::temp_directory_path() /
        fmt::format("tessera_recorder_{}_{}", ::getpid(),
                    ::testing::UnitTest::GetInstance()->current_test_info()->name());
    options_.steps = 10;
    options_.output.file = ::open_memstream(&text_, &size_);
  }
  void TearDown() override {
    std::fclose(options_.output.file);
    std::free(text_);
    std::filesystem::remove_all(options_.directory);
  }

  // Steps from…to, each of two seconds, with a validation after step 4.
  void run(int64_t from, int64_t to) {
    options_.done_steps = from - 1;
    Recorder recorder(options_, {0, 1000});
    for (int64_t s = from; s <= to; ++s) {
      const Now now{2.0 * static_cast<double>(s), 1000.0 + static_cast<double>(s)};
      recorder.step({.step = s, .tokens = 64 * s, .loss = 5, .step_s = 2, .tokens_per_s = 32}, 0,
                    now);
      if (s == 4) recorder.validation({.step = s, .name = "wiki", .validation_loss = 3}, now);
    }
    recorder.sync();
    recorder.finish();
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> out;
    const std::string text = read_file(options_.directory / "metrics.jsonl");
    for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
      out.push_back(text.substr(at, text.find('\n', at) - at));
    }
    return out;
  }
  int64_t event_files() const {
    return std::distance(std::filesystem::directory_iterator(options_.directory / "tensorboard"),
                         std::filesystem::directory_iterator());
  }

  RecorderOptions options_;
  char* text_ = nullptr;
  size_t size_ = 0;
};

TEST_F(RecorderTest, AResumedRunHasEachLineOnce) {
  run(1, 10);
  const std::vector<std::string> whole = lines();
  EXPECT_EQ(whole.size(), 11u);
  std::filesystem::remove_all(options_.directory);
  run(1, 7);
  run(4, 10);
  EXPECT_EQ(lines(), whole);
  EXPECT_EQ(event_files(), 2);
}

TEST_F(RecorderTest, ANewRunForgetsAnOldOne) {
  run(1, 10);
  run(1, 2);
  EXPECT_EQ(lines().size(), 2u);
}

TEST_F(RecorderTest, WritesEveryFewStepsAndTheFirstAndTheLast) {
  options_.every_steps = 4;
  options_.tensorboard = false;
  run(1, 10);
  std::vector<int64_t> steps;
  for (const std::string& line : lines()) {
    const Tree t = parse_json(line, "line");
    if (t.find("loss")) steps.push_back(std::get<int64_t>(t.find("step")->value));
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 4, 8, 10}));
  EXPECT_FALSE(std::filesystem::exists(options_.directory / "tensorboard"));
}

TEST_F(RecorderTest, TellsPeople) {
  run(1, 10);
  std::fflush(options_.output.file);
  const std::string text(text_, size_);
  EXPECT_NE(text.find("step 1/10 loss 5.000"), std::string::npos) << text;
  EXPECT_NE(text.find("left 18 s"), std::string::npos) << text;
  EXPECT_NE(text.find("step 4 validation wiki 3.000 (0.000 bits/byte)\n"), std::string::npos);
  EXPECT_NE(text.find("step 10/10"), std::string::npos) << text;
}

TEST_F(RecorderTest, ADirectoryThatCannotBeMadeIsNamed) {
  write_file(options_.directory.string() + ".file", "x");
  options_.directory += ".file/run";
  try {
    run(1, 1);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(".file/run"), std::string::npos);
  }
  options_.directory = options_.directory.parent_path();
}

}  // namespace
}  // namespace tessera
