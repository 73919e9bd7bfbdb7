#include "train/progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <vector>

#include "tensor/process_limits.h"

namespace tessera::train {
namespace {

TEST(FormatCount, SeparatesThousands) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1240), "1,240");
  EXPECT_EQ(format_count(2097152), "2,097,152");
  EXPECT_EQ(format_count(-999), "-999");
  EXPECT_EQ(format_count(-12000), "-12,000");
  EXPECT_EQ(format_count(std::numeric_limits<int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(FormatRate, HasThreeDigits) {
  EXPECT_EQ(format_rate(312.4), "312");
  EXPECT_EQ(format_rate(999.6), "1.00 k");
  EXPECT_EQ(format_rate(38200), "38.2 k");
  EXPECT_EQ(format_rate(381600), "382 k");
  EXPECT_EQ(format_rate(1.24e6), "1.24 M");
  EXPECT_EQ(format_rate(2e9), "2.00 G");
  EXPECT_EQ(format_rate(NAN), "–");
}

TEST(FormatDuration, HasTheTwoUnitsThatMatter) {
  EXPECT_EQ(format_duration(-3), "0 s");
  EXPECT_EQ(format_duration(45.2), "45 s");
  EXPECT_EQ(format_duration(125), "2 min 5 s");
  EXPECT_EQ(format_duration(1510), "25 min");
  EXPECT_EQ(format_duration(4 * 3600 + 12 * 60), "4 h 12 min");
  EXPECT_EQ(format_duration(3 * 86400 + 4 * 3600 + 5), "3 d 4 h");
}

TEST(FormatLearningRate, IsShort) {
  EXPECT_EQ(format_learning_rate(0), "0");
  EXPECT_EQ(format_learning_rate(9.6e-4), "9.6e-4");
  EXPECT_EQ(format_learning_rate(1e-10), "1.0e-10");
  EXPECT_EQ(format_learning_rate(1), "1.0e0");
}

TEST(FormatBar, HasAnEighthOfACellAsItsUnit) {
  EXPECT_EQ(format_bar(0, 4), "▕    ▏");
  EXPECT_EQ(format_bar(0.5, 4), "▕██  ▏");
  EXPECT_EQ(format_bar(0.57, 4), "▕██▎ ▏");
  EXPECT_EQ(format_bar(1, 4), "▕████▏");
  EXPECT_EQ(format_bar(7, 4), "▕████▏");
  EXPECT_EQ(format_bar(-1, 4), "▕    ▏");
}

const ProgressState kState{.step = 1240,
                           .steps = 10000,
                           .loss = 3.4123,
                           .grad_norm = 0.841,
                           .learning_rate = 9.6e-4,
                           .tokens_per_s = 38200,
                           .flops_per_s = 0.354e12,
                           .matrix_rate_share = 0.612,
                           .exposed_share = 0.032,
                           .memory_bytes = 1406611866,
                           .left_s = 4 * 3600 + 12 * 60};

TEST(FormatProgress, IsTheLineThatPeopleSee) {
  EXPECT_EQ(format_progress(kState, 10),
            "step 1,240/10,000 ▕█▏        ▏ loss 3.412  norm 0.84  lr 9.6e-4 │ 38.2 k tok/s"
            "  0.35 TFLOP/s  61 % of matrix rate  exposed comm 3 %  1.31 GiB │ left 4 h 12 min");
}

TEST(FormatProgress, LeavesOutWhatIsNotKnown) {
  ProgressState p = kState;
  p.flops_per_s = p.matrix_rate_share = 0;
  p.memory_bytes = 0;
  p.exposed_share = p.left_s = -1;
  EXPECT_EQ(format_progress(p, 0),
            "step 1,240/10,000 loss 3.412  norm 0.84  lr 9.6e-4 │ 38.2 k tok/s");
}

TEST(CutToColumns, CountsCharactersAndNotBytes) {
  EXPECT_EQ(cut_to_columns("▕██▏ab", 5), "▕██▏a");
  EXPECT_EQ(cut_to_columns("abc", 5), "abc");
  EXPECT_EQ(cut_to_columns("▕▏", 0), "");
}

TEST(ResidentBytes, IsPlausible) {
  const int64_t before = process_resident_bytes();
  EXPECT_GT(before, 1 << 20);
  constexpr size_t kBytes = 64 << 20;
  const std::vector<char> block(kBytes, 'x');
  EXPECT_GT(process_resident_bytes() + block[1], before + static_cast<int64_t>(kBytes) / 2);
}

// What a Progress writes, as text.
class Captured {
 public:
  Captured() : file_(::open_memstream(&text_, &size_)) {}
  ~Captured() {
    std::fclose(file_);
    std::free(text_);
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  std::FILE* file() const { return file_; }
  std::string text() const {
    std::fflush(file_);
    return {text_, size_};
  }

 private:
  char* text_ = nullptr;
  size_t size_ = 0;
  std::FILE* file_;
};

int64_t lines(const std::string& s) { return std::count(s.begin(), s.end(), '\n'); }

TEST(Progress, StepLinesAreDueEvery30SecondsOrNStepsAndAtTheLast) {
  for (const auto& [every, expected] : std::map<int64_t, std::vector<int64_t>>{
           {0, {1, 31, 61, 91, 100}}, {40, {40, 80, 100}}, {50, {50, 100}}}) {
    StepLines lines;
    lines.set_every(every);
    std::vector<int64_t> due;
    for (int64_t step = 1; step <= 100; ++step)
      if (lines.due(step, 100, static_cast<double>(step))) due.push_back(step);
    EXPECT_EQ(due, expected) << every;
  }
}

TEST(Progress, WritesTheLinesThatAreDueToAFile) {
  Captured out;
  Progress progress({.file = out.file()});
  ProgressState p = kState;
  StepLines due;
  for (int64_t step = 1; step <= 100; ++step) {
    p.step = step;
    p.steps = 100;
    const auto now_s = static_cast<double>(step);
    progress.show(p, now_s, due.due(step, 100, now_s));
  }
  progress.finish();
  const std::string text = out.text();
  EXPECT_EQ(lines(text), 5) << text;  // steps 1, 31, 61, 91 and 100
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("step 31/100 loss"), std::string::npos);
  EXPECT_NE(text.find("step 100/100 loss"), std::string::npos);
}

TEST(Progress, RewritesOneLineOnATerminalAndComesBackAfterAnother) {
  Captured out;
  Progress progress({.file = out.file(), .terminal = true, .columns = 31});
  ProgressState p = kState;
  progress.show(p, 0, false);
  progress.show(p, 0.1, true);  // too early
  progress.print("saved 1250 in 0.4 s");
  progress.finish();
  EXPECT_EQ(out.text(),
            "\r\x1b[Kstep 1,240/10,000 ▕█▏        ▏"
            "\r\x1b[Ksaved 1250 in 0.4 s\nstep 1,240/10,000 ▕█▏        ▏\n");
}

TEST(Progress, B_NanHasNoSign) {
  ProgressState p;
  p.loss = -std::numeric_limits<double>::quiet_NaN();
  p.grad_norm = -std::numeric_limits<double>::quiet_NaN();
  const std::string line = format_progress(p, 0);
  EXPECT_NE(line.find("loss nan  norm nan"), std::string::npos) << line;
  EXPECT_EQ(line.find("-nan"), std::string::npos) << line;
}

}  // namespace
}  // namespace tessera::train
