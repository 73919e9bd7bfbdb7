// Writes the data of the charts as JSON. A run of 100,000 steps has two million numbers; each
// series is reduced to the smallest and largest value of about a thousand intervals (reduce.cc),
// which on a screen looks the same as all of them. Smoothing happens here, before the reduction, on
// all values.
//
// Charts have the step as horizontal axis; for tokens and training time, the page interpolates in a
// map of 500 points.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

#include "base/real.h"
#include "base/tree.h"
#include "base/utf8.h"
#include "report/html.h"
#include "report/page.h"
#include "report/reduce.h"

namespace tessera::report {
namespace {

constexpr size_t kMapPoints = 500;
constexpr size_t kSmoothedSteps = 200;  // shorter series are shown as they are

// Appends six significant digits, which is finer than a pixel.
void append_number(std::string& out, double x) {
  if (std::isfinite(x))
    fmt::format_to(std::back_inserter(out), "{:.6g}", x);
  else
    out += "null";
}

// Appends "key":[…], one entry per index.
template <class F>
void append_list(std::string& out, std::string_view key, std::span<const size_t> indices,
                 const F& append_entry) {
  fmt::format_to(std::back_inserter(out), "\"{}\":[", key);
  bool first = true;
  for (const size_t i : indices) {
    if (!first) out += ',';
    first = false;
    append_entry(i);
  }
  out += ']';
}

void append_steps(std::string& out, std::string_view key, std::span<const size_t> indices,
                  const std::vector<int64_t>& steps) {
  append_list(out, key, indices,
              [&](size_t i) { fmt::format_to(std::back_inserter(out), "{}", steps[i]); });
}

void append_values(std::string& out, std::string_view key, std::span<const size_t> indices,
                   const std::vector<double>& values) {
  append_list(out, key, indices, [&](size_t i) { append_number(out, values[i]); });
}

std::string json_text(std::string_view text) { return to_json(Tree(printable(text))); }

// A line of a chart, computed from the columns of a step.
struct SeriesRule {
  std::string_view key;
  bool smoothed;
  std::function<double(const Steps&, size_t)> value;
};

std::vector<SeriesRule> rules() {
  const auto column = [](Column c, double factor = 1) {
    return [c, factor](const Steps& s, size_t i) { return factor * s.values[c][i]; };
  };
  const auto share = [](Column c) {
    return [c](const Steps& s, size_t i) {
      return 100 * s.values[c][i] / s.values[Column::kStepS][i];
    };
  };
  return {{"loss", true, column(Column::kLoss)},
          {"z_loss", true, column(Column::kZLoss)},
          {"grad_norm", true, column(Column::kGradNorm)},
          {"learning_rate", false, column(Column::kLearningRate)},
          {"loss_scale", false, column(Column::kLossScale)},
          {"tokens_per_s", true, column(Column::kTokensPerS)},
          {"flops_share", true, column(Column::kFlopsShare, 100)},
          {"data_share", true, share(Column::kDataS)},
          {"exposed_share", true, share(Column::kExposedS)},
          {"hidden_share", true, share(Column::kHiddenS)},
          {"bubble_share", true, column(Column::kBubbleShare, 100)},
          {"slowest", true, column(Column::kSlowestOverMean)},
          {"router_loss", true, column(Column::kRouterLoss)},
          {"busiest_expert", true, column(Column::kBusiestExpert)},
          {"load_entropy", true, column(Column::kLoadEntropy)},
          {"dropped_share", true, column(Column::kDroppedShare, 100)},
          {"rewards_chosen", true, column(Column::kRewardsChosen)},
          {"rewards_rejected", true, column(Column::kRewardsRejected)},
          {"rewards_margins", true, column(Column::kRewardsMargins)},
          {"rewards_accuracies", true, column(Column::kRewardsAccuracies, 100)},
          {"logps_chosen", true, column(Column::kLogpsChosen)},
          {"logps_rejected", true, column(Column::kLogpsRejected)},
          {"kl", true, column(Column::kKl)},
          {"nll_loss", true, column(Column::kNllLoss)},
          {"noise_scale", false, column(Column::kNoiseScale)},
          {"resident_bytes", false, column(Column::kResidentBytes)}};
}

void append_series(std::string& out, const Steps& steps) {
  out += "\"series\":{";
  bool first = true;
  std::vector<double> values(steps.step.size());
  for (const SeriesRule& rule : rules()) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = rule.value(steps, i);
    const std::vector<size_t> kept = reduce(values, kMostPoints);
    if (kept.empty()) continue;
    fmt::format_to(std::back_inserter(out), "{}\"{}\":{{", first ? "" : ",", rule.key);
    first = false;
    append_steps(out, "x", kept, steps.step);
    out += ',';
    append_values(out, "y", kept, values);
    if (rule.smoothed && values.size() >= kSmoothedSteps) {
      out += ',';
      append_values(out, "s", kept, smooth(values, ratio(values.size(), 200)));
    }
    out += '}';
  }
  out += '}';
}

std::string_view name_of(CurveKind kind) {
  static constexpr EnumArray<CurveKind, std::string_view> kNames = {"validation", "source", "task",
                                                                    "answers"};
  return kNames[kind];
}

// Returns the values of a curve in the unit of its chart: shares in percent.
std::vector<double> chart_values(const Curve& c) {
  std::vector<double> values = c.value;
  if (c.figure == "rewards_accuracies")
    for (double& v : values) v *= 100;
  return values;
}

void append_curve(std::string& out, const Curve& c, std::string_view kind,
                  const std::vector<double>& values) {
  const std::vector<size_t> kept = reduce(values, kMostPoints);
  fmt::format_to(std::back_inserter(out), "{}{{\"kind\":\"{}\",\"name\":{},",
                 out.back() == '[' ? "" : ",", kind, json_text(c.name));
  if (!c.figure.empty())
    fmt::format_to(std::back_inserter(out), "\"figure\":{},", json_text(c.figure));
  append_steps(out, "x", kept, c.step);
  out += ',';
  append_values(out, "y", kept, values);
  out += '}';
}

// Bits per byte of a validation are a curve of their own.
void append_curves(std::string& out, const RunData& run) {
  out += "\"curves\":[";
  for (const Curve& c : run.curves) {
    append_curve(out, c, name_of(c.kind), chart_values(c));
    if (std::isfinite(last_finite(c.bits_per_byte)))
      append_curve(out, c, "bits_per_byte", c.bits_per_byte);
  }
  out += ']';
}

// Tokens and training time at some steps, between which the page interpolates.
void append_map(std::string& out, const Steps& steps) {
  std::vector<size_t> kept;
  const size_t n = steps.step.size(), points = std::min(n, kMapPoints);
  for (size_t i = 0; i < points; ++i) kept.push_back(points == 1 ? 0 : i * (n - 1) / (points - 1));
  out += "\"map\":{";
  append_steps(out, "step", kept, steps.step);
  out += ',';
  append_list(out, "tokens", kept, [&](size_t i) {
    const double tokens = steps.values[Column::kTokens][i];
    fmt::format_to(std::back_inserter(out), "{:.0f}", std::isfinite(tokens) ? tokens : 0);
  });
  out += ',';
  append_values(out, "seconds", kept, steps.elapsed_s());
  out += '}';
}

void append_events(std::string& out, const RunData& run) {
  out += "\"events\":[";
  for (const Event& e : run.log.events)
    if (e.marked)
      fmt::format_to(std::back_inserter(out), "{}[\"{}\",{}]", out.back() == '[' ? "" : ",",
                     name_of(e.kind), e.step);
  out += ']';
}

}  // namespace

std::string chart_data(std::span<const RunData> runs) {
  const std::vector<std::string> names = names_of(runs);
  std::string out = "{\"runs\":[";
  for (size_t r = 0; r < runs.size(); ++r) {
    const RunUnits units = units_of(runs[r]);
    out += fmt::format("{}{{\"name\":{},\"count\":\"{}\",\"loss_unit\":\"{}\",", r == 0 ? "" : ",",
                       json_text(names[r]), units.count, units.loss);
    append_map(out, runs[r].steps);
    out += ',';
    append_series(out, runs[r].steps);
    out += ',';
    append_curves(out, runs[r]);
    out += ',';
    append_events(out, runs[r]);
    out += '}';
  }
  out += "]}";
  return script_safe(out);
}

}  // namespace tessera::report
