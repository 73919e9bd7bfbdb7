// Writes the matrix rates that the starts of runs measured. A start measures the rate of the
// machine once, after its first step, and its shares of the matrix rate are relative to that
// measurement. So shares of two starts can be compared only if the rates are about equal.
//
// The rate of a start is the quotient of two recorded numbers of its first step: the FLOP/s and the
// share.
#include <algorithm>
#include <cmath>

#include "base/count.h"
#include "report/html.h"
#include "report/page.h"

namespace tessera::report {
namespace {

constexpr double kSimilar = 1.2;  // rates within this factor are comparable

struct StartRate {
  std::string run, time;
  int64_t first_step = 0;
  double rate = 0;  // FLOP/s
};

// Returns the first recorded step after step `from` up to `to` that has a rate.
std::optional<StartRate> first_rate(const Steps& steps, int64_t from, int64_t to) {
  const auto first = std::upper_bound(steps.step.begin(), steps.step.end(), from);
  for (size_t i = first - steps.step.begin(); i < steps.step.size() && steps.step[i] <= to; ++i) {
    const double rate = steps.values[Column::kFlopsPerS][i] / steps.values[Column::kFlopsShare][i];
    if (std::isfinite(rate) && rate > 0) return StartRate{"", "", steps.step[i], rate};
  }
  return std::nullopt;
}

// Adds the rates of the starts that trained. The steps of a start are those after the step that it
// resumed at, up to the step that the next one resumed at.
void add_rates(const RunData& run, const std::string& name, std::vector<StartRate>& rates) {
  std::vector<const Start*> starts;
  for (const Start& s : run.log.starts)
    if (s.trained) starts.push_back(&s);
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t end =
        i + 1 < starts.size() ? starts[i + 1]->resumed_step : std::numeric_limits<int64_t>::max();
    std::optional<StartRate> rate = first_rate(run.steps, starts[i]->resumed_step, end);
    if (!rate) continue;
    rate->run = name;
    rate->time = starts[i]->time;
    rates.push_back(std::move(*rate));
  }
}

std::string rate_of(const StartRate& r) { return rate_text(r.rate, "FLOP/s"); }

std::string table_of(const std::vector<StartRate>& rates, bool several) {
  Table table;
  table.head = {"start", "first step", "matrix rate"};
  if (several) table.head.insert(table.head.begin(), "run");
  for (const StartRate& r : rates) {
    std::vector<Cell> row = {{r.time, CellKind::kTime},
                             {format_count(r.first_step), CellKind::kNumber},
                             {rate_of(r), CellKind::kNumber}};
    if (several) row.insert(row.begin(), {r.run});
    table.rows.push_back(std::move(row));
  }
  return to_html(table);
}

}  // namespace

std::string rates_section(std::span<const RunData> runs) {
  const std::vector<std::string> names = names_of(runs);
  std::vector<StartRate> rates;
  for (size_t r = 0; r < runs.size(); ++r) add_rates(runs[r], names[r], rates);
  if (rates.empty()) return "";
  if (rates.size() == 1)
    return fmt::format("<p class=\"caption\">Matrix rate, measured after the first step: {}.</p>",
                       rate_of(rates.front()));
  const auto [low, high] = std::ranges::minmax_element(rates, {}, &StartRate::rate);
  std::string out;
  if (high->rate > kSimilar * low->rate)
    out = fmt::format(
        "<p class=\"note\">The starts measured matrix rates from {} to {}, so their shares of the "
        "matrix rate cannot be compared. Other work on the machine slows such a measurement. "
        "Compare the rates per second.</p>",
        rate_of(*low), rate_of(*high));
  return out + fmt::format(
                   "<details><summary>Matrix rate that each start measured</summary>{}"
                   "</details>",
                   table_of(rates, runs.size() > 1));
}

}  // namespace tessera::report
