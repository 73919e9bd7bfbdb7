// Lays out the screen of `tessera watch` as lines of text that fit a terminal: title, loss curve,
// figures, ranks, last event. The curve gets the rows that are left. Nothing here writes to the
// terminal, so it is tested as a function.
//
// The curve uses Braille characters, which have 2 × 4 dots each. A column of dots stands for an
// interval of steps and reaches from its smallest to its largest value, extended to touch the
// column before it, so a spike of one step stays visible among 100,000 and the curve has no gaps.
#include "report/screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/count.h"
#include "base/real.h"
#include "base/utf8.h"

namespace tessera::report {
namespace {

constexpr size_t kRecentSteps = 20;
constexpr size_t kMostRankLines = 6;
constexpr int kLabel = 9;  // columns of the labels at the curve

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;

  void add(double x) {
    if (!std::isfinite(x)) return;
    low = std::min(low, x);
    high = std::max(high, x);
  }
  bool empty() const { return low > high; }
};

// A grid of dots, rendered as Braille patterns of Unicode (U+2800).
class Dots {
 public:
  Dots(int columns, int rows) : columns_(columns), cells_(columns * rows) {}

  void set(int x, int y) {
    // Bits of the dots of a cell, by row and column.
    constexpr int kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    cells_[y / 4 * columns_ + x / 2] |= kBits[y % 4][x % 2];
  }

  std::string row(int y) const {
    std::string line;
    for (int x = 0; x < columns_; ++x) {
      const int cell = cells_[y * columns_ + x];
      const char bytes[] = {'\xe2', char(0xa0 | (cell >> 6)), char(0x80 | (cell & 0x3f))};
      line += cell == 0 ? std::string(" ") : std::string(bytes, 3);
    }
    return line;
  }

 private:
  int columns_;
  std::vector<int> cells_;
};

// Returns the first `columns` characters of a line.
std::string cut(const std::string& line, int columns) {
  size_t at = 0;
  for (int column = 0; at < line.size() && column < columns; ++column)
    at += std::max<size_t>(1, utf8_length(line, at));
  return line.substr(0, at);
}

std::string figure(std::string_view name, double value, std::string_view format) {
  return std::isfinite(value)
             ? fmt::format("  {} {}", name, fmt::format(fmt::runtime(format), value))
             : "";
}

std::string share(std::string_view name, double value) {
  return std::isfinite(value) ? fmt::format("  {} {}", name, percent_text(value)) : "";
}

double recent_step_s(const Steps& steps) {
  const std::vector<double>& all = steps.values[Column::kStepS];
  double sum = 0;
  int64_t n = 0;
  for (size_t i = all.size(); i-- > 0 && n < std::ssize(all) && all.size() - i <= kRecentSteps;) {
    if (!std::isfinite(all[i])) continue;
    sum += all[i];
    ++n;
  }
  return n > 0 ? ratio(sum, n) : std::numeric_limits<double>::quiet_NaN();
}

// Adds the losses of datasets and tasks, and the accuracy and margin of pairs of answers.
void add_curves(const RunData& run, std::vector<std::string>& lines) {
  std::string validation, sources;
  for (const Curve& c : run.curves) {
    const double value = c.value.back();
    if (c.kind == CurveKind::kAnswers) {
      if (c.figure == "rewards_accuracies") validation += share("accuracy", value);
      if (c.figure == "rewards_margins") validation += figure("margin", value, "{:.4f}");
      continue;
    }
    (c.kind == CurveKind::kSource ? sources : validation) +=
        fmt::format("  {} {:.4f}", c.name, without_nan_sign(value));
  }
  if (!sources.empty()) lines.push_back("training" + sources);
  if (!validation.empty()) lines.push_back("validation" + validation);
}

std::vector<std::string> figures(const RunData& run) {
  const Steps& steps = run.steps;
  const auto last = [&](Column c) { return steps.values[c].back(); };
  std::vector<std::string> lines;
  lines.push_back("loss " + fmt::format("{:.4f}", without_nan_sign(last(Column::kLoss))) +
                  figure("norm", last(Column::kGradNorm), "{:.3f}") +
                  figure("lr", last(Column::kLearningRate), "{:.2e}"));
  if (std::isfinite(last(Column::kRewardsChosen)))
    lines.push_back("answers" + share("accuracy", last(Column::kRewardsAccuracies)) +
                    figure("margin", last(Column::kRewardsMargins), "{:.4f}") +
                    figure("reward chosen", last(Column::kRewardsChosen), "{:.4f}") +
                    figure("rejected", last(Column::kRewardsRejected), "{:.4f}") +
                    figure("kl", last(Column::kKl), "{:.4f}"));
  const double step_s = recent_step_s(steps);
  std::string speed =
      std::isfinite(last(Column::kTokensPerS))
          ? fmt::format("{} {}/s", amount_text(last(Column::kTokensPerS)), units_of(run).count)
          : "speed";
  speed += share("matrix rate", last(Column::kFlopsShare));
  if (std::isfinite(step_s)) speed += "  step " + step_text(step_s);
  speed += share("waiting for data", last(Column::kDataS) / last(Column::kStepS));
  lines.push_back(speed);
  if (std::isfinite(last(Column::kExposedS)))
    lines.push_back("ranks" + share("exposed", last(Column::kExposedS) / last(Column::kStepS)) +
                    share("hidden", last(Column::kHiddenS) / last(Column::kStepS)) +
                    share("bubble", last(Column::kBubbleShare)) +
                    figure("slowest rank", last(Column::kSlowestRank), "{:.0f}") +
                    figure("its time over the mean", last(Column::kSlowestOverMean), "{:.2f}"));
  if (std::isfinite(last(Column::kBusiestExpert)))
    lines.push_back("experts" + figure("router loss", last(Column::kRouterLoss), "{:.4f}") +
                    figure("busiest over the mean", last(Column::kBusiestExpert), "{:.2f}") +
                    figure("entropy over even loads", last(Column::kLoadEntropy), "{:.3f}") +
                    share("dropped", last(Column::kDroppedShare)));
  add_curves(run, lines);
  return lines;
}

// "first · step 500/1,000 · left 4.2 minutes"
std::string title_of(const RunData& run) {
  const Steps& steps = run.steps;
  if (steps.step.empty()) return run.name + " · no step yet";
  std::string title = fmt::format("{} · step {}", run.name, format_count(steps.step.back()));
  const std::optional<int64_t> planned = integer_setting(run, "schedule.steps");
  if (!planned) return title;
  title += fmt::format("/{}", format_count(*planned));
  const double left_s = real_product(recent_step_s(steps), *planned - steps.step.back());
  return left_s > 0 ? fmt::format("{} · left {}", title, run_text(left_s)) : title;
}

// Returns the curve of the loss with its range and its steps.
std::vector<std::string> loss_curve(const Steps& steps, int columns, int rows) {
  const std::vector<double>& losses = steps.values[Column::kLoss];
  Range range;
  for (const double x : losses) range.add(x);
  std::vector<std::string> lines;
  if (range.empty() || columns <= kLabel || rows < 2) return lines;
  const std::vector<std::string> rows_of_dots = braille(losses, columns - kLabel, rows - 1);
  for (size_t i = 0; i < rows_of_dots.size(); ++i) {
    const bool top = i == 0, bottom = i + 1 == rows_of_dots.size();
    const std::string label = top      ? fmt::format("{:.4g}", range.high)
                              : bottom ? fmt::format("{:.4g}", range.low)
                                       : "";
    lines.push_back(fmt::format("{:>{}} │{}", label, kLabel - 2, rows_of_dots[i]));
  }
  const std::string first = format_count(steps.step.front()),
                    last = format_count(steps.step.back());
  lines.push_back(fmt::format("{:{}}{}{:>{}}", "", kLabel, first, last,
                              std::max<int64_t>(1, columns - kLabel - std::ssize(first))));
  return lines;
}

}  // namespace

std::vector<std::string> braille(std::span<const double> values, int columns, int rows) {
  const int64_t width = int64_t{2} * columns, height = int64_t{4} * rows, n = std::ssize(values);
  Range range;
  for (const double x : values) range.add(x);
  Dots dots(columns, rows);
  const auto y_of = [&](double x) {
    const double part = range.high > range.low ? (range.high - x) / (range.high - range.low) : 0.5;
    return int(std::lround(part * real_product(1, height - 1)));
  };
  Range before;
  for (int64_t x = 0; x < width && n > 0 && !range.empty(); ++x) {
    Range own;
    const int64_t begin = x * n / width, end = std::max(begin + 1, (x + 1) * n / width);
    for (int64_t i = begin; i < end; ++i) own.add(values[i]);
    if (!own.empty()) {
      // Joined: no gap to the column before.
      const double low = before.empty() ? own.low : std::min(own.low, before.high);
      const double high = before.empty() ? own.high : std::max(own.high, before.low);
      for (int y = y_of(high); y <= y_of(low); ++y) dots.set(int(x), y);
    }
    before = own;
  }
  std::vector<std::string> lines;
  for (int y = 0; y < rows; ++y) lines.push_back(dots.row(y));
  return lines;
}

std::vector<std::string> screen(const RunData& run, const std::string& state,
                                const std::vector<std::string>& ranks, const ScreenSize& size) {
  const Steps& steps = run.steps;
  std::vector<std::string> lines = {title_of(run) + " · " + state};
  if (!run.log.starts.empty() && !run.log.starts.back().layout.empty())
    lines.push_back(run.log.starts.back().layout);
  std::vector<std::string> below = steps.step.empty() ? std::vector<std::string>() : figures(run);
  for (size_t i = 0; i < std::min(ranks.size(), kMostRankLines); ++i) below.push_back(ranks[i]);
  if (ranks.size() > kMostRankLines)
    below.push_back(fmt::format("and {} more groups of ranks", ranks.size() - kMostRankLines));
  if (!run.log.events.empty()) {
    const Event& e = run.log.events.back();
    below.push_back(
        fmt::format("{} {}: {}", e.time, name_of(e.kind), e.text.substr(0, e.text.find('\n'))));
  }
  const int64_t left = size.rows - 1 - std::ssize(lines) - std::ssize(below);
  for (std::string& line : loss_curve(steps, size.columns, int(std::min<int64_t>(left, 14))))
    lines.push_back(std::move(line));
  lines.insert(lines.end(), below.begin(), below.end());
  if (std::ssize(lines) > size.rows) lines.resize(size.rows);
  for (std::string& line : lines) line = cut(printable(line), size.columns);
  return lines;
}

}  // namespace tessera::report
