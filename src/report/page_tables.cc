// Writes the tables of the page: the summary, memory, data, events and the configuration.
//
// Text from a run (names, settings, messages) is escaped where it enters HTML (escaped, to_html); a
// run directory may come from another person. Rates are medians, since the first steps of a run and
// those with a checkpoint are slower.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/count.h"
#include "base/median.h"
#include "base/tree.h"
#include "report/html.h"
#include "report/page.h"

namespace tessera::report {
namespace {

constexpr size_t kMostRows = 300;
constexpr std::string_view kAccuracies = "rewards_accuracies", kMargins = "rewards_margins";

using Facts = std::vector<std::pair<std::string, std::string>>;

// Returns the median of the finite values; NaN if there is none.
double finite_median(std::vector<double> values) {
  std::erase_if(values, [](double x) { return !std::isfinite(x); });
  return median(std::move(values));
}

int64_t restarts(const RunData& run) {
  return std::count_if(run.log.events.begin(), run.log.events.end(),
                       [](const Event& e) { return e.kind == EventKind::kRestart; });
}

void add_rates(const Steps& steps, std::string_view count, Facts& facts) {
  if (const double rate = finite_median(steps.values[Column::kTokensPerS]); std::isfinite(rate))
    facts.emplace_back(fmt::format("median {} per second", count), amount_text(rate));
  if (const double share = finite_median(steps.values[Column::kFlopsShare]); std::isfinite(share))
    facts.emplace_back("median share of the matrix rate", percent_text(share));
}

// Returns the name of a loss with its unit, if that is not the usual one.
std::string loss_name(std::string_view loss, const RunUnits& units) {
  return units.loss == RunUnits().loss ? std::string(loss)
                                       : fmt::format("{} ({})", loss, units.loss);
}

std::string fact_name(const Curve& c, const RunUnits& units) {
  switch (c.kind) {
    case CurveKind::kValidation:
      return loss_name("validation loss", units) + ", " + c.name;
    case CurveKind::kSource:
      return "training loss, " + c.name;
    case CurveKind::kTask:
      return c.name;
    case CurveKind::kAnswers:
      return (c.figure == kAccuracies ? "validation accuracy, " : "validation margin, ") + c.name;
  }
  return c.name;
}

// Returns false for a curve that only the charts show.
bool is_fact(const Curve& c) {
  return c.kind != CurveKind::kAnswers || c.figure == kAccuracies || c.figure == kMargins;
}

void add_curves(const RunData& run, const RunUnits& units, Facts& facts) {
  for (const Curve& c : run.curves) {
    const double value = last_finite(c.value);
    if (!std::isfinite(value) || !is_fact(c)) continue;
    facts.emplace_back(fact_name(c, units), c.figure == kAccuracies ? percent_text(value)
                                                                    : fmt::format("{:.4f}", value));
    if (const double bits = last_finite(c.bits_per_byte); std::isfinite(bits))
      facts.emplace_back("validation bits per byte, " + c.name, fmt::format("{:.4f}", bits));
  }
}

void add_losses(const Steps& steps, const RunUnits& units, Facts& facts) {
  const auto last = [&](Column c) { return last_finite(steps.values[c]); };
  if (const double loss = last(Column::kLoss); std::isfinite(loss))
    facts.emplace_back(loss_name("training loss", units), fmt::format("{:.4f}", loss));
  if (const double share = last(Column::kRewardsAccuracies); std::isfinite(share))
    facts.emplace_back("training accuracy", percent_text(share));
  if (const double margin = last(Column::kRewardsMargins); std::isfinite(margin))
    facts.emplace_back("training margin", fmt::format("{:.4f}", margin));
}

Facts facts_of(const RunData& run) {
  Facts facts;
  const Steps& steps = run.steps;
  const RunUnits units = units_of(run);
  if (!steps.step.empty()) {
    const std::optional<int64_t> planned = integer_setting(run, "schedule.steps");
    facts.emplace_back("last step", format_count(steps.step.back()) +
                                        (planned ? " of " + format_count(*planned) : ""));
    add_losses(steps, units, facts);
  }
  add_curves(run, units, facts);
  if (steps.step.empty()) return facts;
  if (const double tokens = last_finite(steps.values[Column::kTokens]); std::isfinite(tokens))
    facts.emplace_back(units.count, amount_text(tokens));
  add_rates(steps, units.count, facts);
  facts.emplace_back("training time", run_text(steps.elapsed_s().back()));
  if (!run.log.starts.empty()) facts.emplace_back("restarts", format_count(restarts(run)));
  return facts;
}

// One column per run. Names of facts are in the order of their first appearance.
std::string summary_of_several(std::span<const RunData> runs) {
  std::vector<Facts> facts;
  std::vector<std::string> names;
  for (const RunData& run : runs) {
    facts.push_back(facts_of(run));
    for (const auto& [name, value] : facts.back())
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  Table table;
  table.head = {"run"};
  for (const std::string& name : names_of(runs)) table.head.push_back(name);
  for (const std::string& name : names) {
    std::vector<Cell> row = {{name}};
    for (const Facts& own : facts) {
      const auto at = std::find_if(own.begin(), own.end(),
                                   [&name](const auto& fact) { return fact.first == name; });
      row.push_back({at == own.end() ? "–" : at->second, CellKind::kNumber});
    }
    table.rows.push_back(std::move(row));
  }
  return to_html(table);
}

}  // namespace

std::string left_out_section(std::span<const RunData> runs) {
  std::string out;
  for (const RunData& run : runs) {
    for (const std::string& note : run.left_out)
      out += fmt::format("<p class=\"note\">Left out: {}</p>", escaped(note));
    if (const std::string warning = order_warning(run); !warning.empty())
      out += fmt::format("<p class=\"note\">Warning: {}</p>", escaped(warning));
  }
  return out;
}

std::string summary_section(std::span<const RunData> runs) {
  return runs.size() == 1 ? tiles(facts_of(runs.front())) : summary_of_several(runs);
}

std::string traffic_table(std::span<const RunData> runs) {
  std::vector<std::string> axes;
  for (const RunData& run : runs)
    for (const auto& [axis, bytes] : run.traffic)
      if (bytes > 0 && std::find(axes.begin(), axes.end(), axis) == axes.end())
        axes.push_back(axis);
  Table table;
  table.head = {"axis"};
  for (const std::string& name : names_of(runs))
    table.head.push_back(runs.size() == 1 ? "sent by all ranks" : name);
  for (const std::string& axis : axes) {
    std::vector<Cell> row = {{axis}};
    for (const RunData& run : runs) {
      const auto at = std::find_if(run.traffic.begin(), run.traffic.end(),
                                   [&axis](const auto& entry) { return entry.first == axis; });
      row.push_back(
          {at == run.traffic.end() ? "–" : amount_text(at->second) + "B", CellKind::kNumber});
    }
    table.rows.push_back(std::move(row));
  }
  return table.rows.empty() ? "" : "<h3>Bytes sent by all ranks</h3>" + to_html(table);
}

std::string data_section(std::span<const RunData> runs) {
  const std::vector<std::string> names = names_of(runs);
  std::string out;
  for (size_t r = 0; r < runs.size(); ++r) {
    std::string own;
    if (!runs[r].log.starts.empty() && !runs[r].log.starts.back().data.empty())
      own += fmt::format("<p>{}</p>", escaped(runs[r].log.starts.back().data));
    own += mixture_table(setting(runs[r], "data.train"), setting(runs[r], "data.stages"),
                         last_finite(runs[r].steps.values[Column::kTokens]));
    if (own.empty()) continue;
    if (runs.size() > 1) out += fmt::format("<h3>{}</h3>", escaped(names[r]));
    out += own;
  }
  return out.empty() ? "" : "<section id=\"data-mixture\"><h2>Data</h2>" + out + "</section>";
}

std::string events_section(std::span<const RunData> runs) {
  const std::vector<std::string> names = names_of(runs);
  Table table;
  table.head = {"event", "step", "time", "message"};
  std::string checkpoints;
  size_t more = 0;
  for (size_t r = 0; r < runs.size(); ++r) {
    int64_t saved = 0;
    const Event* last = nullptr;
    for (const Event& e : runs[r].log.events) {
      if (e.kind == EventKind::kCheckpoint) {
        ++saved;
        last = &e;
        continue;
      }
      if (table.rows.size() == kMostRows) {
        ++more;
        continue;
      }
      const std::string kind(name_of(e.kind));
      table.rows.push_back({{runs.size() == 1 ? kind : kind + ", " + names[r]},
                            {format_count(e.step), CellKind::kNumber},
                            {e.time, CellKind::kTime},
                            {e.text, CellKind::kText}});
      table.classes.push_back(kind);
    }
    if (last)
      checkpoints +=
          fmt::format("<p>{}{} saved, the last one of step {} at {}.</p>",
                      runs.size() == 1 ? "" : escaped(names[r]) + ": ",
                      saved == 1 ? "1 checkpoint was" : format_count(saved) + " checkpoints were",
                      format_count(last->step), escaped(last->time));
  }
  if (table.rows.empty() && checkpoints.empty()) return "";
  std::string out = "<section id=\"events\"><h2>Events</h2>" + checkpoints;
  if (!table.rows.empty()) out += to_html(table);
  if (more > 0) out += fmt::format("<p class=\"caption\">{} more are in log.txt.</p>", more);
  return out + "</section>";
}

std::string differences_section(std::span<const RunData> runs) {
  if (runs.size() < 2) return "";
  Table table;
  table.head = {"key"};
  for (const std::string& name : names_of(runs)) table.head.push_back(name);
  std::set<std::string> seen = {"run.name", "run.directory"};
  for (const RunData& run : runs)
    for (const auto& [key, ignored] : run.settings) {
      if (!seen.insert(key).second) continue;
      std::vector<Cell> row = {{key}};
      bool differs = false;
      for (const RunData& other : runs) {
        row.push_back({setting(other, key), CellKind::kText});
        differs = differs || row.back().text != row[1].text;
      }
      if (differs) table.rows.push_back(std::move(row));
    }
  const std::string body = table.rows.empty()
                               ? "<p>The configurations are equal, except for the run's name.</p>"
                               : to_html(table);
  return "<section id=\"differences\"><h2>Differences of the configurations</h2>" + body +
         "</section>";
}

std::string configuration_section(std::span<const RunData> runs) {
  const std::vector<std::string> names = names_of(runs);
  std::string out;
  for (size_t r = 0; r < runs.size(); ++r) {
    if (runs[r].settings.empty()) continue;
    Table table;
    table.head = {"key", "value"};
    for (const auto& [key, value] : runs[r].settings)
      table.rows.push_back({{key}, {value, CellKind::kText}});
    out += fmt::format("<details><summary>{} ({} keys)</summary>{}</details>", escaped(names[r]),
                       runs[r].settings.size(), to_html(table));
  }
  return out.empty() ? ""
                     : "<section id=\"configuration\"><h2>Configuration</h2>" + out + "</section>";
}

}  // namespace tessera::report
