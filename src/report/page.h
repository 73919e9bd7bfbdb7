// The page of `tessera report`: one self-contained HTML file about one or several runs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/html.h"
#include "report/run_data.h"
#include "report/sweep_data.h"

namespace tessera::report {

// The predicted times of a step (plan/simulate.h).
struct Planned {
  std::string machine;  // "a100-80gb"
  double step_s = 0;
  std::vector<std::pair<std::string, double>> parts;  // seconds by op, as in Trace::ops
  std::string timeline_svg;  // the simulated step of all stages; empty: not shown
  NamedColors timeline_colors = {};
};

struct PageOptions {
  std::string version;
  std::optional<Planned> planned = {};  // for the first run
  std::optional<SweepData> sweep = {};  // whose best trials the runs are
};

// Throws Error if `runs` is empty.
std::string page(std::span<const RunData> runs, const PageOptions& options);

// ---- The parts of the page

// Text in HTML: <, >, &, quotes and control characters are escaped.
std::string escaped(std::string_view text);

// Returns the names that the page uses for the runs: the names of their directories, or the paths
// of directories with equal names.
std::vector<std::string> names_of(std::span<const RunData> runs);

// Series longer than this are reduced (report/reduce.h).
constexpr size_t kMostPoints = 2000;

// The data of the charts as a JSON document that may be in a <script>: '<' is \u003c. For each
// run: "name", "count" and "loss_unit" (RunUnits), "map" (tokens and seconds at some steps),
// "series" (x, y and smoothed s), "curves" (validation losses and tasks), "events" ([kind, step]:
// those with a mark).
std::string chart_data(std::span<const RunData> runs);

// Sections; empty where no run has what they show.
std::string left_out_section(std::span<const RunData> runs);
std::string summary_section(std::span<const RunData> runs);
std::string rates_section(std::span<const RunData> runs);  // the matrix rates that starts measured
std::string traffic_table(std::span<const RunData> runs);
std::string time_section(std::span<const RunData> runs, const std::optional<Planned>& planned);
std::string memory_table(std::span<const RunData> runs);
std::string data_section(std::span<const RunData> runs);
std::string events_section(std::span<const RunData> runs);
std::string differences_section(std::span<const RunData> runs);
std::string configuration_section(std::span<const RunData> runs);

}  // namespace tessera::report
