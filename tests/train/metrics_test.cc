#include "train/metrics.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <limits>

#include "base/append_file.h"
#include "base/tree.h"

namespace tessera::train {
namespace {

class Metrics : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("tessera_metrics_{}_{}", ::getpid(),
                          ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "metrics.jsonl";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write_steps(int64_t from, int64_t to) {
    AppendFile file(path_);
    for (int64_t s = from; s <= to; ++s) {
      file.append(to_json_line(StepMetrics{
                      .step = s, .tokens = 10 * s, .loss = 1.0 / static_cast<double>(s)}) +
                  "\n");
      if (s % 2 == 0)
        file.append(to_json_line(ValidationMetrics{.step = s, .name = "wiki"}) + "\n");
    }
  }

  Path folder_, path_;
};

double number(const Tree& t, std::string_view key) {
  const Tree* member = t.find(key);
  return member ? std::get<double>(member->value) : NAN;
}

TEST_F(Metrics, EveryDoubleReadsBackAsItWas) {
  const StepMetrics m{.step = 3,
                      .tokens = 6144,
                      .loss = 10.831234567890123,
                      .grad_norm = 0.1 + 0.2,
                      .learning_rate = 9.7e-5,
                      .step_s = 1.0 / 3,
                      .data_s = 1e-5 / 7,
                      .resident_bytes = (int64_t{1} << 40) + 1,
                      .tokens_per_s = 1e22,
                      .model_flops_per_s = 1.5e14,
                      .model_flops_share = std::numeric_limits<double>::denorm_min()};
  const Tree t = parse_json(to_json_line(m), "line");
  EXPECT_EQ(std::get<int64_t>(t.find("step")->value), 3);
  EXPECT_EQ(std::get<int64_t>(t.find("tokens")->value), 6144);
  EXPECT_EQ(number(t, "loss"), m.loss);
  EXPECT_EQ(number(t, "grad_norm"), m.grad_norm);
  EXPECT_EQ(number(t, "learning_rate"), m.learning_rate);
  EXPECT_EQ(number(t, "step_s"), m.step_s);
  EXPECT_EQ(number(t, "data_s"), m.data_s);
  EXPECT_EQ(std::get<int64_t>(t.find("resident_bytes")->value), m.resident_bytes);
  EXPECT_EQ(number(t, "tokens_per_s"), m.tokens_per_s);
  EXPECT_EQ(number(t, "model_flops_per_s"), m.model_flops_per_s);
  EXPECT_EQ(number(t, "model_flops_share"), m.model_flops_share);
}

TEST_F(Metrics, ANumberThatJsonCannotHoldIsNull) {
  const Tree t = parse_json(to_json_line(StepMetrics{.step = 1, .loss = NAN}), "line");
  EXPECT_TRUE(t.find("loss")->is_null());
}

TEST_F(Metrics, ValidationLinesCarryTheirKeys) {
  const Tree t = parse_json(
      to_json_line(ValidationMetrics{
          .step = 8, .name = "wiki \"2\"", .validation_loss = 3.25, .bits_per_byte = 1.75}),
      "line");
  EXPECT_EQ(*t.find("name")->as_string(), "wiki \"2\"");
  EXPECT_EQ(number(t, "validation_loss"), 3.25);
  EXPECT_EQ(number(t, "bits_per_byte"), 1.75);
}

TEST_F(Metrics, CutBackLeavesOneLineAStep) {
  write_steps(1, 7);
  EXPECT_EQ(cut_back(path_, 4).removed, 4);  // steps 5, 6, 7 and the validation of 6
  write_steps(5, 7);
  const std::string again = read_file(path_);
  std::filesystem::remove(path_);
  write_steps(1, 7);
  EXPECT_EQ(again, read_file(path_));
}

TEST_F(Metrics, CutBackDropsATornLastLine) {
  write_steps(1, 3);
  const std::string whole = read_file(path_);
  write_file(path_, whole + R"({"step":4,"tok)");
  EXPECT_EQ(cut_back(path_, 100).removed, 1);
  EXPECT_EQ(read_file(path_), whole);
}

TEST_F(Metrics, EveryCutOfTheFileIsMended) {
  write_steps(1, 3);
  const std::string whole = read_file(path_);
  for (size_t bytes = 0; bytes <= whole.size(); ++bytes) {
    write_file(path_, whole.substr(0, bytes));
    cut_back(path_, 100);
    const std::string left = read_file(path_);
    EXPECT_TRUE(whole.starts_with(left));
    EXPECT_TRUE(left.empty() || left.back() == '\n');
    EXPECT_LT(bytes - left.size(), 200u);
  }
}

TEST_F(Metrics, CutBackWithoutAFileWritesNothing) {
  EXPECT_EQ(cut_back(path_, 3).removed, 0);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

// The previous owner of a run may still write to the file that it has open.
TEST_F(Metrics, CutBackReplacesTheFile) {
  write_steps(1, 3);
  const std::string all = read_file(path_);
  for (const int64_t last : {3, 2}) {
    std::ofstream lost(path_, std::ios::app);
    EXPECT_EQ(cut_back(path_, last).removed, 3 - last);
    lost << "{\"step\":9}\n" << std::flush;
    EXPECT_TRUE(all.starts_with(read_file(path_))) << read_file(path_);
  }
}

TEST_F(Metrics, M11_DamagedLinesAreMovedAside) {
  const std::string damaged = "{\"loss\":2}\nnonsense\n" + std::string("\0\0\n", 3);
  const std::string text = "{\"step\":1}\n" + damaged + "{\"step\":3}\n{\"step\":4}\n";
  for (const char* aside : {"metrics.jsonl.damaged", "metrics.jsonl.damaged.2"}) {
    write_file(path_, text);
    const CutBack result = cut_back(path_, 3);
    EXPECT_EQ(result.removed, 1);
    EXPECT_EQ(result.damaged, 3);
    EXPECT_NE(result.problem.find("metrics.jsonl:2"), std::string::npos) << result.problem;
    EXPECT_EQ(result.damaged_file, folder_ / aside);
    EXPECT_EQ(read_file(result.damaged_file), damaged);
    EXPECT_EQ(read_file(path_), "{\"step\":1}\n{\"step\":3}\n");
  }
}

TEST_F(Metrics, CutBackNamesWhatTheLastStepHas) {
  write_steps(1, 7);
  EXPECT_EQ(cut_back(path_, 6).names_at_step, std::set<std::string>{"wiki"});
  EXPECT_EQ(cut_back(path_, 5).names_at_step, std::set<std::string>{});
}

// The end of the file is then cut off in place, which needs no space.
TEST_F(Metrics, CutBackWorksOnAFullDisk) {
  write_steps(1, 7);
  EXPECT_EXIT(
      {
        std::signal(SIGXFSZ, SIG_IGN);
        rlimit limit;
        limit.rlim_cur = limit.rlim_max = 0;
        ::setrlimit(RLIMIT_FSIZE, &limit);
        ::_exit(cut_back(path_, 4).removed == 4 ? 7 : 0);
      },
      ::testing::ExitedWithCode(7), "");
  EXPECT_EQ(cut_back(path_, 4).removed, 0);
}

}  // namespace
}  // namespace tessera::train
