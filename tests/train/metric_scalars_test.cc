#include "train/metric_scalars.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>

#include "base/tree.h"
#include "metric_scalars.h"
#include "train/metrics_recorder.h"

namespace tessera::train {
namespace {

using Numbers = std::map<std::string, double>;

// The numbers of a line by their keys, those of objects as "bytes_sent.data"; true is 1.
Numbers numbers_of(const std::string& line) {
  Numbers out;
  const Tree tree = parse_json(line, "line");
  for (const auto& [key, value] : *tree.as_members()) {
    if (const Tree::Members* inner = value.as_members())
      for (const auto& [name, number] : *inner) out[key + "." + name] = *number_in(number);
    else if (const bool* flag = std::get_if<bool>(&value.value))
      out[key] = *flag ? 1 : 0;
    else if (number_in(value) && key != "step")
      out[key] = *number_in(value);
  }
  return out;
}

std::string filled(std::string_view text, const MetricScalar& s) {
  std::string out(text);
  for (const auto& [label, value] : s.labels)
    if (const size_t at = out.find("{" + label + "}"); at != std::string::npos)
      out.replace(at, label.size() + 2, value);
  return out;
}

Numbers by_key(const std::vector<MetricScalar>& scalars) {
  Numbers out;
  for (const MetricScalar& s : scalars) out[filled(name_of(s.metric).key, s)] = s.value;
  return out;
}

TEST(MetricScalars, AreAllNumbersOfALine) {
  EXPECT_EQ(by_key(scalars_of(full_step())), numbers_of(to_json_line(full_step())));
  EXPECT_EQ(by_key(scalars_of(full_validation())), numbers_of(to_json_line(full_validation())));
  EXPECT_EQ(by_key(scalars_of(full_validation_of_pairs())),
            numbers_of(to_json_line(full_validation_of_pairs())));
  EXPECT_EQ(numbers_of(to_json_line(full_validation_of_pairs())).size(), 9u);
  EXPECT_EQ(by_key(scalars_of(full_task())), numbers_of(to_json_line(8, full_task())));
  const StepMetrics plain{.step = 1, .loss = 2};
  EXPECT_EQ(by_key(scalars_of(plain)), numbers_of(to_json_line(plain)));
}

TEST(MetricScalars, TagsHaveTheValuesOfLabels) {
  std::vector<std::string> tags;
  for (const MetricScalar& s : scalars_of(full_task())) tags.push_back(s.tag());
  const std::vector<std::string> expected = {
      "task/piqa/examples", "task/piqa/accuracy", "task/piqa/accuracy_error",
      "task/piqa/accuracy_length", "task/piqa/accuracy_length_error"};
  EXPECT_EQ(tags, expected);
  EXPECT_EQ(scalars_of(full_validation())[0].tag(), "validation/loss/wiki");
  EXPECT_EQ(scalars_of(full_validation_of_pairs())[4].tag(), "validation/rewards/accuracies/pairs");
  // A name with braces is not searched for further labels.
  EXPECT_EQ((MetricScalar{Metric::kTaskValue, 1, {{"task", "{metric}"}, {"metric", "f1"}}}.tag()),
            "task/{metric}/f1");
}

// The table in docs/metrics.md has one row per metric, in the order of the code.
TEST(MetricScalars, AreDocumented) {
  std::vector<std::string> rows, expected;
  std::istringstream page(read_file(TESSERA_SOURCE "/docs/metrics.md"));
  for (std::string line; std::getline(page, line);)
    if (line.find("| `tessera_") != std::string::npos && line.starts_with("| `"))
      rows.push_back(line);
  for (const Metric m : Enumerators<Metric>()) {
    const MetricName& n = name_of(m);
    expected.push_back(fmt::format("| `{}` | `{}` | `{}` |", n.key, n.tag, n.prometheus));
  }
  EXPECT_EQ(rows, expected);
}

// A record writes every figure of every line to TensorBoard.
TEST(MetricScalars, AreRecordedForTensorBoard) {
  const Path folder =
      std::filesystem::temp_directory_path() / fmt::format("tessera_scalars_{}", ::getpid());
  std::filesystem::create_directories(folder);
  {
    MetricsRecorder record(
        MetricsRecorderOptions{.folder = folder,
                               .first_step = 1,
                               .tensorboard = true,
                               .prometheus = folder / "run.prom",
                               .name = "first",
                               .wall_s = [] { return 1e9; },
                               .warn = [](const std::string& text) { FAIL() << text; },
                               .owned = [] { return true; }});
    record.add(full_step());
    record.add(full_validation());
    record.add(full_validation_of_pairs());
    record.add(8, full_task());
    record.finish();
  }
  std::string events;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "tensorboard"))
    events += read_file(entry.path());
  const std::string samples = read_file(folder / "run.prom");
  const auto check = [&](const std::vector<MetricScalar>& scalars) {
    for (const MetricScalar& s : scalars) {
      EXPECT_NE(events.find(s.tag()), std::string::npos) << s.tag();
      EXPECT_NE(samples.find(fmt::format("\n{}{{run=\"first\"", name_of(s.metric).prometheus)),
                std::string::npos)
          << name_of(s.metric).prometheus;
    }
  };
  check(scalars_of(full_step()));
  check(scalars_of(full_validation()));
  check(scalars_of(full_validation_of_pairs()));
  check(scalars_of(full_task()));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera::train
