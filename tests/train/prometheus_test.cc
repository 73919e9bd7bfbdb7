#include "train/prometheus.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <regex>
#include <set>
#include <sstream>

#include "metric_scalars.h"

namespace tessera::train {
namespace {

class Prometheus : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("tessera_prometheus_{}_{}", ::getpid(),
                          ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  Path folder_;
};

PrometheusFile full_file(const Path& path, const std::string& run) {
  PrometheusFile file(path, run);
  file.set(7, 1e9, scalars_of(full_step()));
  file.set(8, 1e9 + 1, scalars_of(full_validation()));
  file.set(8, 1e9 + 1, scalars_of(full_task()));
  return file;
}

// The grammar of the text format: HELP, TYPE, then samples of that metric, each metric once.
void expect_format(const std::string& text) {
  static const std::regex kHelp("# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) [^\\\\\\n]+");
  static const std::regex kType("# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (gauge|counter)");
  static const std::regex kSample(
      "([a-zA-Z_:][a-zA-Z0-9_:]*)"
      "\\{[a-zA-Z_][a-zA-Z0-9_]*=\"(\\\\[\\\\\"n]|[^\"\\\\])*\""
      "(,[a-zA-Z_][a-zA-Z0-9_]*=\"(\\\\[\\\\\"n]|[^\"\\\\])*\")*\\} "
      "(NaN|[+-]Inf|-?[0-9]+(\\.[0-9]+)?(e[+-]?[0-9]+)?)");
  ASSERT_TRUE(text.ends_with('\n'));
  std::istringstream lines(text);
  std::set<std::string> metrics, samples;
  std::string current, line;
  while (std::getline(lines, line)) {
    std::smatch m;
    if (std::regex_match(line, m, kHelp)) {
      current = m[1];
      EXPECT_TRUE(metrics.insert(current).second) << "twice: " << line;
      ASSERT_TRUE(std::getline(lines, line));
      ASSERT_TRUE(std::regex_match(line, m, kType)) << line;
      EXPECT_EQ(m[1], current);
    } else {
      ASSERT_TRUE(std::regex_match(line, m, kSample)) << line;
      EXPECT_EQ(m[1], current) << line;
      EXPECT_TRUE(samples.insert(line.substr(0, line.rfind(' '))).second) << "twice: " << line;
    }
  }
  EXPECT_GT(samples.size(), 0u);
}

TEST_F(Prometheus, HasTheTextFormat) {
  const std::string text = full_file(folder_ / "a.prom", "first").text();
  expect_format(text);
  EXPECT_NE(text.find("# HELP tessera_loss Training loss, mean over the tokens of the global "
                      "batch, natural logarithm.\n# TYPE tessera_loss gauge\n"
                      "tessera_loss{run=\"first\"} 2.5\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("tessera_sent_bytes{run=\"first\",axis=\"tensor\"} 2000\n"),
            std::string::npos);
  EXPECT_NE(text.find("tessera_task_value{run=\"first\",task=\"piqa\",metric=\"accuracy\"} 0.5\n"),
            std::string::npos);
  EXPECT_NE(text.find("tessera_step{run=\"first\"} 8\n"), std::string::npos);
}

TEST_F(Prometheus, EscapesLabelsAndNumbersThatAreNotFinite) {
  PrometheusFile file(folder_ / "a.prom", "a\\b \"c\"\nd{}=,");
  file.set(1, 1e9, {{Metric::kLoss, std::nan("")}, {Metric::kGradNorm, INFINITY}});
  const std::string text = file.text();
  expect_format(text);
  EXPECT_NE(text.find("tessera_loss{run=\"a\\\\b \\\"c\\\"\\nd{}=,\"} NaN\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("} +Inf\n"), std::string::npos);
}

TEST_F(Prometheus, ReplacesTheFileAtMostEveryFewSeconds) {
  const Path path = folder_ / "a.prom";
  PrometheusFile file = full_file(path, "first");
  file.write(1e9, false);
  EXPECT_EQ(read_file(path), file.text());
  struct stat s {};
  ASSERT_EQ(::stat(path.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0444u, 0444u);  // the collector runs as another user
  file.set(9, 1e9 + 2, {{Metric::kLoss, 1.0}});
  file.write(1e9 + 2, false);
  EXPECT_NE(read_file(path), file.text());
  file.write(1e9 + 6, false);
  EXPECT_EQ(read_file(path), file.text());
  file.set(10, 1e9 + 7, {{Metric::kLoss, 0.5}});
  file.write(1e9 + 7, true);
  EXPECT_EQ(read_file(path), file.text());
  const auto entries = std::filesystem::directory_iterator(folder_);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);  // no temporary file is left
}

TEST_F(Prometheus, AFailedWriteIsReportedOnce) {
  const Path path = folder_ / "missing" / "a.prom";
  PrometheusFile file = full_file(path, "first");
  file.write(1e9, true);
  const auto report = file.take_report();
  ASSERT_TRUE(report);
  EXPECT_NE(report->find(path.string()), std::string::npos) << *report;
  file.write(1e9 + 10, true);
  EXPECT_FALSE(file.take_report());
  std::filesystem::create_directories(folder_ / "missing");
  file.write(1e9 + 20, true);
  EXPECT_NE(file.take_report().value_or("").find("can be written again"), std::string::npos);
  EXPECT_EQ(read_file(path), file.text());
}

}  // namespace
}  // namespace tessera::train
