// Writes the page of one or several runs: a template with placeholders for sections, each made by a
// file page_*.cc. All scripts, styles and data are inside the page, so it opens without a network
// and can be archived with the run. Runs of the same name are shown by their directories.
#include "report/page.h"

#include <algorithm>

#include "base/utf8.h"
#include "report/assets.h"
#include "report/html.h"

namespace tessera::report {
namespace {

constexpr size_t kMostNames = 3, kLongTitle = 60;  // bytes

// Returns the first `most` names with commas between them.
std::string joined(const std::vector<std::string>& names, size_t most) {
  std::string out;
  for (size_t i = 0; i < std::min(most, names.size()); ++i) out += (i == 0 ? "" : ", ") + names[i];
  return out;
}

bool fit_a_title(const std::vector<std::string>& names) {
  return names.size() == 1 ||
         (names.size() <= kMostNames && joined(names, kMostNames).size() <= kLongTitle);
}

std::string title_of(const std::vector<std::string>& names) {
  return fit_a_title(names) ? joined(names, kMostNames) : fmt::format("{} runs", names.size());
}

std::string about(std::span<const RunData> runs, const PageOptions& options) {
  if (options.sweep)
    return fmt::format("sweep of {} trials, with the curves of the best {}",
                       options.sweep->trials.size(), runs.size());
  if (const auto names = names_of(runs); !fit_a_title(names)) {
    const size_t more = names.size() - std::min(names.size(), kMostNames);
    return escaped(joined(names, kMostNames)) + (more > 0 ? fmt::format(" and {} more", more) : "");
  }
  if (runs.size() > 1) return fmt::format("{} runs", runs.size());
  const RunData& run = runs.front();
  if (run.log.starts.empty()) return escaped(run.directory.string());
  const Start& start = run.log.starts.back();
  std::string text = escaped(start.model);
  if (!start.layout.empty()) text += " · " + escaped(start.layout);
  return text;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::vector<std::string> names_of(std::span<const RunData> runs) {
  std::vector<std::string> names;
  for (const RunData& run : runs) {
    const auto same = [&run](const RunData& other) { return other.name == run.name; };
    const bool unique = std::count_if(runs.begin(), runs.end(), same) == 1;
    names.push_back(unique ? run.name : run.directory.string());
  }
  return names;
}

std::string page(std::span<const RunData> runs, const PageOptions& options) {
  if (runs.empty()) throw Error("a report needs at least one run");
  const std::string footer = fmt::format(
      "tessera {} · {}. Thin lines: recorded values, reduced to at most {} points per line: the "
      "smallest and the largest of each interval. Thick lines, from 200 steps "
      "on: "
      "two-sided exponential average over 1/200 of the recorded steps.",
      escaped(options.version), runs.size() == 1 ? "1 run" : fmt::format("{} runs", runs.size()),
      kMostPoints);
  const std::string title = options.sweep ? options.sweep->name : title_of(names_of(runs));
  return filled(page_template(), {{"@TITLE@", escaped(title)},
                                  {"@ABOUT@", about(runs, options)},
                                  {"@CHART_STYLES@", chart_styles()},
                                  {"@STYLES@", page_styles()},
                                  {"@LEFT_OUT@", left_out_section(runs)},
                                  {"@SUMMARY@", summary_section(runs)},
                                  {"@SWEEP@", options.sweep ? sweep_section(*options.sweep) : ""},
                                  {"@RATES@", rates_section(runs)},
                                  {"@TRAFFIC@", traffic_table(runs)},
                                  {"@TIME@", time_section(runs, options.planned)},
                                  {"@MEMORY@", memory_table(runs)},
                                  {"@DATA@", data_section(runs)},
                                  {"@EVENTS@", events_section(runs)},
                                  {"@DIFFERENCES@", differences_section(runs)},
                                  {"@CONFIGURATION@", configuration_section(runs)},
                                  {"@FOOTER@", footer},
                                  {"@DATA_JSON@", chart_data(runs)},
                                  {"@CHART_LIBRARY@", chart_library()},
                                  {"@COMMON_SCRIPT@", common_script()},
                                  {"@SCRIPT@", page_script()}});
}

}  // namespace tessera::report
