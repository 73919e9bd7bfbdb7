// The section of a sweep: one chart per key, as an SVG of the last score of each trial over its
// value, and the table of all trials. Trials that ran all steps are filled points, trials that
// stopped earlier are hollow ones: their scores are after fewer steps.
//
// A chart shows one key and projects out the others, so points above each other differ in the other
// keys. The vertical axis covers the finite scores only; a trial that diverged has no point, and is
// in the table. The best trial is written last, so that no other point covers it.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/count.h"
#include "report/html.h"
#include "report/page.h"
#include "report/svg_axis.h"
#include "report/sweep_data.h"

namespace tessera::report {
namespace {

constexpr double kWidth = 560, kHeight = 280, kLeft = 84, kRight = 14, kTop = 14, kBottom = 46;
constexpr size_t kShortValue = 6;  // characters of 0.0001
constexpr size_t kFewValues = 8;   // an axis with at most this number of values has them as ticks

double number_of(const std::string& text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

class Chart {
 public:
  Chart(const SweepData& sweep, size_t key) : sweep_(sweep), key_(key) {
    for (const SweepTrial& t : sweep.trials) {
      const std::string& value = t.values[key];
      if (!own().numeric && std::find(names_.begin(), names_.end(), value) == names_.end())
        names_.push_back(value);
      if (std::isfinite(t.score)) y_.cover(t.score);
    }
    for (const SweepTrial& t : sweep.trials) x_.cover(place(t));
    x_.add_margin();
    y_.add_margin();
  }

  std::string svg() const {
    std::string out = fmt::format(
        "<svg viewBox=\"0 0 {:.0f} {:.0f}\" width=\"100%\" role=\"img\" aria-label=\"{} over {}\" "
        "font-size=\"12\">",
        kWidth, kHeight, escaped(sweep_.score), escaped(own().key));
    out += axis_lines();
    for (auto t = sweep_.trials.rbegin(); t != sweep_.trials.rend(); ++t)  // the best one on top
      if (std::isfinite(t->score)) out += circle(*t);
    return out + "</svg>";
  }

 private:
  const SweepKey& own() const { return sweep_.keys[key_]; }

  double place(const SweepTrial& t) const {
    const std::string& value = t.values[key_];
    if (!own().numeric)
      return static_cast<double>(std::find(names_.begin(), names_.end(), value) - names_.begin());
    return own().logarithmic ? std::log10(number_of(value)) : number_of(value);
  }

  // Returns the ticks of the key: its values if they are few, and were listed or are short to read;
  // otherwise round numbers.
  std::vector<Tick> key_ticks() const {
    std::map<double, std::string> values;
    for (const SweepTrial& t : sweep_.trials) values.emplace(place(t), t.values[key_]);
    const bool all_short =
        std::ranges::all_of(values, [](const auto& v) { return v.second.size() <= kShortValue; });
    const bool few = values.size() <= kFewValues && (own().listed || all_short);
    if (own().numeric && !few)
      return own().logarithmic ? log_ticks(x_.low(), x_.high()) : round_ticks(x_.low(), x_.high());
    std::vector<Tick> ticks;
    for (const auto& [at, value] : values) ticks.push_back({at, value});
    return ticks;
  }

  static std::string text(double x, double y, const char* anchor, const std::string& words) {
    return fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"var(--muted)\">{}</text>", x, y,
        anchor, escaped(words));
  }

  static std::string line(double x, double y, const char* path) {
    return fmt::format("<path d=\"M{:.1f} {:.1f}{}\" stroke=\"var(--line)\"/>", x, y, path);
  }

  std::string axis_lines() const {
    std::string out =
        fmt::format("<path d=\"M{0} {1}V{2}H{3}\" fill=\"none\" stroke=\"var(--line)\"/>", kLeft,
                    kTop, kHeight - kBottom, kWidth - kRight);
    for (const Tick& tick : round_ticks(y_.low(), y_.high())) {
      out += line(kLeft, y_.at(tick.value), "h-4");
      out += text(kLeft - 8, y_.at(tick.value) + 4, "end", tick.text);
    }
    for (const Tick& tick : key_ticks()) out += line(x_.at(tick.value), kHeight - kBottom, "v4");
    for (const TickLabel& label : labels_of(key_ticks(), x_, 0, kWidth))
      out += text(label.x, kHeight - kBottom + 18, "middle", label.text);
    out += text((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", own().key);
    const double middle = (kTop + kHeight - kBottom) / 2;
    return out + fmt::format("<g transform=\"rotate(-90 14 {0:.1f})\">{1}</g>", middle,
                             text(14, middle, "middle", sweep_.score));
  }

  std::string circle(const SweepTrial& t) const {
    const bool finished = t.outcome == "finished", best = &t == &sweep_.trials.front();
    return fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\" stroke=\"{}\"><title>trial "
        "{:03}: "
        "{}, {} {:.4f} at step {}</title></circle>",
        x_.at(place(t)), y_.at(t.score), best ? 6 : 4,
        finished || best ? "var(--accent)" : "var(--page)", best ? "var(--bad)" : "var(--accent)",
        t.number, escaped(t.values[key_]), escaped(sweep_.score), t.score, t.steps);
  }

  const SweepData& sweep_;
  size_t key_;
  std::vector<std::string> names_;  // the values of a key that is not a number
  SvgAxis x_{kLeft, kWidth - kRight}, y_{kHeight - kBottom, kTop};
};

std::string table_of(const SweepData& sweep) {
  Table table;
  table.head = {"rank", "trial"};
  for (const SweepKey& key : sweep.keys) table.head.push_back(key.key);
  table.head.insert(table.head.end(), {"steps", sweep.score, "outcome"});
  int64_t rank = 0;
  for (const SweepTrial& t : sweep.trials) {
    std::vector<Cell> row = {{format_count(++rank), CellKind::kNumber},
                             {fmt::format("{:03}", t.number), CellKind::kNumber}};
    for (const std::string& value : t.values) row.push_back({value, CellKind::kNumber});
    row.push_back({format_count(t.steps), CellKind::kNumber});
    row.push_back(
        {std::isfinite(t.score) ? fmt::format("{:.4f}", t.score) : "–", CellKind::kNumber});
    row.push_back({t.outcome});
    table.rows.push_back(std::move(row));
  }
  return to_html(table);
}

}  // namespace

std::string sweep_section(const SweepData& sweep) {
  std::string rungs;
  for (const std::string& rung : sweep.rungs) rungs += (rungs.empty() ? "" : ", ") + rung;
  const double share = sweep.steps_in_full > 0 ? static_cast<double>(sweep.steps_taken) /
                                                     static_cast<double>(sweep.steps_in_full)
                                               : 0;
  std::string out = fmt::format(
      "<section id=\"sweep\"><h2>Sweep</h2><p>{} trials ({}): {}. They ran {} of {} steps ({}). "
      "Filled: ran all steps. Hollow: stopped earlier, with the {} of its last step. Red edge: "
      "the "
      "best.</p><div class=\"charts\">",
      sweep.trials.size(), escaped(sweep.method), escaped(rungs), format_count(sweep.steps_taken),
      format_count(sweep.steps_in_full), percent_text(share), escaped(sweep.score));
  if (!sweep.trials.empty())
    for (size_t key = 0; key < sweep.keys.size(); ++key)
      out += fmt::format("<div class=\"chart\"><h3>{}</h3>{}</div>", escaped(sweep.keys[key].key),
                         Chart(sweep, key).svg());
  return out + "</div>" + table_of(sweep) + "</section>";
}

}  // namespace tessera::report
