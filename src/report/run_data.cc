// Reads a run directory: the files one after another, each of which may be missing.
//
// A report must work for a run that was killed, is still running, or was made by an older version.
// So a reader never fails on the content of a file: it keeps what it can, and a note in `left_out`
// states what is missing.
#include "report/run_data.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/real.h"
#include "base/tree.h"

namespace tessera::report {
namespace {

// Flattens a tree: members get dotted names, lists of scalars become one value.
void flatten(const Tree& tree, const std::string& name, std::vector<Setting>& settings) {
  if (const Tree::Members* members = tree.as_members(); members && !members->empty()) {
    for (const auto& [key, member] : *members)
      flatten(member, name.empty() ? key : name + "." + key, settings);
    return;
  }
  const std::string* text = tree.as_string();
  settings.emplace_back(name, text ? *text : to_json(tree));
}

}  // namespace

std::string name_of_directory(const Path& directory) {
  const Path path = std::filesystem::absolute(directory).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

RunUnits units_of(const RunData& run) {
  const std::string objective = setting(run, "objective.kind");
  if (objective == "kto" || run.steps.has(Column::kKl))
    return {"examples", "examples", "per example"};
  if (objective == "ipo") return {"pairs", "pairs", "per pair"};
  const bool has_pairs =
      objective.empty() ? run.steps.has(Column::kRewardsMargins) : objective != "sft";
  return has_pairs ? RunUnits{"pairs", "pairs", "nats per pair"} : RunUnits{};
}

Path settings_file(const Path& directory) {
  Path resolved = directory / "run.resolved.yaml";
  return std::filesystem::exists(resolved) ? resolved : directory / "run.yaml";
}

std::string_view name_of(EventKind kind) {
  static constexpr EnumArray<EventKind, std::string_view> kNames = {
      "checkpoint", "start", "restart", "warning", "error", "stop"};
  return kNames[kind];
}

std::string_view name_of(Activity activity) {
  static constexpr EnumArray<Activity, std::string_view> kNames = {
      "forward", "head and loss", "backward", "recomputation", "update", "transfer", "other"};
  return kNames[activity];
}

bool Steps::has(Column c) const {
  return std::any_of(values[c].begin(), values[c].end(), [](double x) { return std::isfinite(x); });
}

std::vector<double> Steps::elapsed_s() const {
  std::vector<double> sums;
  sums.reserve(step.size());
  double sum = 0;
  for (size_t i = 0; i < step.size(); ++i) {
    // With metrics.every_steps = n, a line stands for the n - 1 steps before it too.
    const int64_t steps = i == 0 ? 1 : step[i] - step[i - 1];
    const double s = values[Column::kStepS][i];
    if (std::isfinite(s)) sum += real_product(s, steps);
    sums.push_back(sum);
  }
  return sums;
}

void read_settings(const Path& file, RunData& run) {
  if (!std::filesystem::exists(file)) return;
  try {
    flatten(parse_yaml(read_file(file), file.string()), "", run.settings);
  } catch (const Error& e) {
    run.left_out.push_back(e.what());
  }
}

std::string setting(const RunData& run, std::string_view key) {
  for (const auto& [name, value] : run.settings)
    if (name == key) return value;
  return "";
}

std::optional<int64_t> integer_setting(const RunData& run, std::string_view key) {
  const std::string text = setting(run, key);
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(n) : std::nullopt;
}

double last_finite(const std::vector<double>& values) {
  const auto at =
      std::find_if(values.rbegin(), values.rend(), [](double x) { return std::isfinite(x); });
  return at == values.rend() ? std::numeric_limits<double>::quiet_NaN() : *at;
}

RunData read_run(const Path& directory) {
  if (!std::filesystem::is_directory(directory))
    throw Error("{}: is not a directory. Expected a run directory, such as runs/NAME.",
                directory.string());
  const Path metrics = directory / "metrics.jsonl", log = directory / "log.txt";
  if (!std::filesystem::exists(metrics) && !std::filesystem::exists(log))
    throw Error(
        "{}: has neither metrics.jsonl nor log.txt. Expected a run directory, such as runs/NAME, "
        "which `tessera train` writes.",
        directory.string());
  RunData run;
  run.name = name_of_directory(directory);
  run.directory = directory;
  read_metrics(metrics, run);
  read_log(log, run);
  read_trace(directory / "trace.json", run);
  read_settings(settings_file(directory), run);
  return run;
}

}  // namespace tessera::report
