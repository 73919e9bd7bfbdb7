#include "config/run_section.h"

#include <algorithm>
#include <charconv>

#include "base/tree.h"

namespace tessera::config {
namespace {

constexpr double kLongestTime_s = 1000 * 86400.0;

bool is_name(const std::string& s) {
  return !s.empty() && s != "." && s != ".." &&
         std::none_of(s.begin(), s.end(),
                      [](unsigned char c) { return c == '/' || c < 0x20 || c == 0x7f; });
}

}  // namespace

std::optional<double> seconds_of(std::string_view time) {
  constexpr std::string_view kUnits = "dhms";
  constexpr double kSeconds[] = {86400, 3600, 60, 1};
  double sum = 0;
  for (size_t next = 0; !time.empty();) {
    double number = 0;
    const auto [end, status] =
        std::from_chars(time.data(), time.data() + time.size(), number, std::chars_format::fixed);
    const auto digits = static_cast<size_t>(end - time.data());
    if (status != std::errc() || !(number >= 0) || digits == time.size()) return std::nullopt;
    const size_t unit = kUnits.find(time[digits], next);
    if (unit == kUnits.npos) return std::nullopt;
    sum += number * kSeconds[unit];
    next = unit + 1;
    time.remove_prefix(digits + 1);
  }
  return sum > 0 && sum <= kLongestTime_s ? std::optional(sum) : std::nullopt;
}

void check(const RunSection& run, KeyErrors& errors) {
  if (!run.time_limit.empty() && !seconds_of(run.time_limit))
    errors.add("run.time_limit",
               "= {}, expected a time above 0, of 1000 days at most, as numbers with the units d, "
               "h, m and "
               "s, in this order, each at most once and without spaces, such as 11h30m, 90m or 2d",
               to_json(Tree(run.time_limit)));
  if (!is_name(run.name))
    errors.add("run.name",
               "= {}, expected a name without '/' and control characters, other than '.' and '..': "
               "without run.directory the run writes into runs/NAME",
               to_json(Tree(run.name)));
}

void check(const CheckpointSection& checkpoint, int64_t steps, KeyErrors& errors) {
  for (const int64_t step : checkpoint.at_steps)
    if (step < 1 || step > steps) {
      errors.add("checkpoint.at_steps", "has {}, expected 1 to schedule.steps = {}", step, steps);
      break;
    }
  if (checkpoint.load == Load::kAll && checkpoint.from.empty())
    errors.add("checkpoint.load", "= all, but checkpoint.from names no checkpoint");
}

void check(const EvaluationSection& evaluation, KeyErrors& errors) {
  if (evaluation.every_steps > 0 && evaluation.tasks.empty())
    errors.add("evaluation.every_steps", "= {}, but evaluation.tasks names no task file",
               evaluation.every_steps);
}

void check(const MetricsSection& metrics, KeyErrors& errors) {
  if (!metrics.prometheus.empty() && !metrics.prometheus.ends_with(".prom"))
    errors.add("metrics.prometheus",
               "= {}, expected a file name that ends with .prom: the textfile collector of "
               "node_exporter reads no other file",
               metrics.prometheus);
}

}  // namespace tessera::config
