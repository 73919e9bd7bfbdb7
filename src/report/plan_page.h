// The page of `tessera plan --html`: one self-contained HTML file about a predicted step, or about
// the layouts that a search simulated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tessera::report {

using NamedNumbers = std::vector<std::pair<std::string, double>>;

// One stage of the pipeline: bytes of a rank by use.
struct StageMemory {
  NamedNumbers parts;  // the same names in all stages, in the same order
  double peak = 0;     // their sum
};

struct SearchedLayout {
  std::string text, keys;  // for people; for the command line
  double step_s = 0, bytes = 0, mfu = 0;
};

// A search, whose layouts are those that were simulated and fit.
struct SearchedLayouts {
  std::vector<SearchedLayout> layouts;
  // Why the other layouts were left out, with their number.
  std::vector<std::pair<std::string, int64_t>> left_out;
  std::string seconds;  // duration of the search
};

struct PlanPage {
  std::string version, title, about;
  std::vector<std::pair<std::string, std::string>> facts;  // name, value
  double step_s = 0;
  NamedNumbers time;  // seconds; the parts of the step
  std::vector<StageMemory> stages;
  double usable_bytes = 0;  // memory of a device
  std::string timeline_svg;
  std::vector<std::pair<std::string, std::string>> timeline_colors;  // meaning, color
  std::optional<SearchedLayouts> search;
};

// Returns the indices of the layouts that no other one beats in both step time and memory, by
// time. Of equal layouts, the first one counts.
std::vector<size_t> pareto_front(const std::vector<SearchedLayout>& layouts);

std::string plan_page(const PlanPage& page);

}  // namespace tessera::report
