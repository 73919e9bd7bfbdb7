// Reads metrics.jsonl line by line. A damaged line is left out and reported; the last line of a run
// that is still running may be incomplete.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/tree.h"
#include "report/run_data.h"

namespace tessera::report {
namespace {

constexpr EnumArray<Column, std::string_view> kKeys = {
    "tokens",
    "loss",
    "grad_norm",
    "learning_rate",
    "step_s",
    "data_s",
    "tokens_per_s",
    "model_flops_per_s",
    "model_flops_share",
    "communication_hidden_s",
    "communication_exposed_s",
    "bubble_share",
    "slowest_over_mean",
    "loss_scale",
    "resident_bytes",
    "slowest_rank",
    "router_loss",
    "busiest_expert",
    "load_entropy",
    "dropped_share",
    "z_loss",
    "rewards_chosen",
    "rewards_rejected",
    "rewards_margins",
    "rewards_accuracies",
    "logps_chosen",
    "logps_rejected",
    "kl",
    "nll_loss",
    "noise_scale",
};

// Keys of a validation line with figures of pairs of answers begin with this.
constexpr std::string_view kValidation = "validation_";

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

constexpr int64_t kMostSteps = int64_t{1} << 53;

// Throws Error if the figure is there and neither a number nor null, which means NaN.
void require_number(const Tree& tree, const char* key, const std::string& source, int line) {
  const Tree* const figure = tree.find(key);
  if (figure != nullptr && !number_in(*figure) && !figure->is_null())
    throw Error("{}:{}: '{}' is {}, expected a number", source, line, key, kind_of(*figure));
}

double number(const Tree* tree) { return tree ? number_in(*tree).value_or(kNone) : kNone; }

class MetricsReader {
 public:
  explicit MetricsReader(RunData& run) : run_(run) {}

  // Throws Error for a line that is not one of a run.
  void read(std::string_view text, const std::string& source, int line) {
    const Tree tree = parse_json(text, source, line);
    const Tree* const step = tree.find("step");
    const auto* const n = step ? std::get_if<int64_t>(&step->value) : nullptr;
    if (!n || *n < 0 || *n > kMostSteps)
      throw Error("{}:{}: is not a JSON object with 'step' from 0 to {}", source, line, kMostSteps);
    for (const char* const key : {"name", "source", "task"})
      if (const Tree* label = tree.find(key); label && !label->as_string())
        throw Error("{}:{}: '{}' is {}, expected a text", source, line, key, kind_of(*label));
    if (const Tree* name = tree.find("name")) return add_validation(tree, *n, *name->as_string());
    if (const Tree* dataset = tree.find("source"))
      return add_source(tree, *n, *dataset->as_string());
    if (const Tree* task = tree.find("task")) return add_task(tree, *n, *task->as_string());
    require_number(tree, "loss", source, line);
    run_.line_order.reversed += *n < run_.line_order.last ? 1 : 0;
    run_.line_order.last = *n;
    run_.steps.step.push_back(*n);
    for (const Column c : Enumerators<Column>())
      run_.steps.values[c].push_back(number(tree.find(kKeys[c])));
    if (const Tree* bytes = tree.find("bytes_sent")) add_traffic(*bytes);
  }

 private:
  Curve& curve(const std::string& name, CurveKind kind, std::string_view figure = "") {
    for (Curve& c : run_.curves)
      if (c.name == name && c.kind == kind && c.figure == figure) return c;
    return run_.curves.emplace_back(Curve{name, kind, {}, {}, {}, std::string(figure)});
  }

  void add_validation(const Tree& tree, int64_t step, const std::string& name) {
    Curve& c = curve(name, CurveKind::kValidation);
    c.step.push_back(step);
    c.value.push_back(number(tree.find("validation_loss")));
    c.bits_per_byte.push_back(number(tree.find("bits_per_byte")));
    for (const auto& [key, value] : *tree.as_members())
      if (key != "validation_loss" && key.starts_with(kValidation) && number_in(value)) {
        Curve& own = curve(name, CurveKind::kAnswers, key.substr(kValidation.size()));
        own.step.push_back(step);
        own.value.push_back(*number_in(value));
      }
  }

  void add_source(const Tree& tree, int64_t step, const std::string& name) {
    Curve& c = curve(name, CurveKind::kSource);
    c.step.push_back(step);
    c.value.push_back(number(tree.find("source_loss")));
  }

  void add_task(const Tree& tree, int64_t step, const std::string& task) {
    for (const auto& [key, value] : *tree.as_members()) {
      const bool is_figure = key != "step" && key != "examples" && !key.ends_with("_error");
      if (!is_figure || !number_in(value)) continue;
      Curve& c = curve(task + " " + key, CurveKind::kTask);
      c.step.push_back(step);
      c.value.push_back(*number_in(value));
    }
  }

  void add_traffic(const Tree& bytes) {
    const Tree::Members* const members = bytes.as_members();
    if (!members) return;
    for (const auto& [axis, value] : *members) {
      const double n = number_in(value).value_or(0);
      const auto same = [&axis = axis](const auto& entry) { return entry.first == axis; };
      const auto at = std::find_if(run_.traffic.begin(), run_.traffic.end(), same);
      if (at == run_.traffic.end())
        run_.traffic.emplace_back(axis, n);
      else
        at->second += n;
    }
  }

  RunData& run_;
};

// Sorts the lines by step and keeps the last line of each step: a file that two starts wrote, or
// that was edited, may have them in another order. Returns the number of lines that are left out.
int64_t sort_steps(Steps& steps) {
  const auto rising = std::adjacent_find(steps.step.begin(), steps.step.end(),
                                         [](int64_t a, int64_t b) { return a >= b; });
  if (rising == steps.step.end()) return 0;
  std::vector<size_t> order(steps.step.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return steps.step[a] < steps.step[b]; });
  std::vector<size_t> kept;
  for (size_t i = 0; i < order.size(); ++i)
    if (i + 1 == order.size() || steps.step[order[i]] != steps.step[order[i + 1]])
      kept.push_back(order[i]);
  const auto pick = [&](auto& values) {
    auto picked = values;
    picked.clear();
    for (const size_t i : kept) picked.push_back(values[i]);
    values = std::move(picked);
  };
  pick(steps.step);
  for (auto& values : steps.values) pick(values);
  return std::ssize(order) - std::ssize(kept);
}

std::string lines_text(int64_t n) { return fmt::format("{} line{}", n, n == 1 ? "" : "s"); }

}  // namespace

size_t add_metrics(std::string_view text, const Path& file, RunData& run) {
  MetricsReader reader(run);
  int64_t damaged = 0;
  std::string first;
  size_t begin = 0;
  for (size_t end = 0; (end = text.find('\n', begin)) != std::string_view::npos;) {
    const std::string_view line = text.substr(begin, end - begin);
    ++run.metrics_lines;
    begin = end + 1;
    if (line.empty()) continue;
    try {
      reader.read(line, file.string(), run.metrics_lines);
    } catch (const Error& e) {
      if (damaged++ == 0) first = e.what();
    }
  }
  if (damaged > 0)
    run.left_out.push_back(fmt::format("{}. {} damaged line{} left out.", first, damaged,
                                       damaged == 1 ? " is" : "s are"));
  run.line_order.repeated += sort_steps(run.steps);
  return begin;
}

std::string order_warning(const RunData& run) {
  const auto& [repeated, reversed, last] = run.line_order;
  if (repeated == 0 && reversed == 0) return "";
  return fmt::format(
      "{}: {} of a step that a later line has too, {} of an earlier step than the line before. No "
      "restart leaves such lines: another process wrote the file at the same time, or it was "
      "edited. The last line of each step counts.",
      (run.directory / "metrics.jsonl").string(), lines_text(repeated), lines_text(reversed));
}

void read_metrics(const Path& file, RunData& run) {
  if (!std::filesystem::exists(file)) return;
  const std::string text = read_file(file);
  if (add_metrics(text, file, run) < text.size())
    run.left_out.push_back(fmt::format(
        "{}:{}: the last line has no end, as in a run that is writing it or was killed. It is left "
        "out.",
        file.string(), run.metrics_lines + 1));
}

}  // namespace tessera::report
