// Fills the template of the page of a plan: tables as HTML, charts as JSON for a script. Everything
// is in one file without references to others, so a plan can be sent by mail.
//
// Layouts of a search are shown by their Pareto front of step time and memory; each of the others
// names a layout of the front that beats it. Sorting by time and then keeping each layout that
// needs less memory than the last one kept gives the front in O(n log n).
#include "report/plan_page.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "base/count.h"
#include "base/tree.h"
#include "base/utf8.h"
#include "report/assets.h"
#include "report/html.h"
#include "report/page.h"

namespace tessera::report {
namespace {

constexpr size_t kMostRows = 300;

std::string bytes_of(double bytes) { return bytes_text(std::llround(bytes)); }

std::string time_section(const PlanPage& page) {
  NamedNumbers parts = page.time;
  std::erase_if(parts, [](const auto& part) { return part.second <= 0; });
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Table table;
  table.head = {"part of the step", "time", "share", ""};
  const auto add = [&](const std::string& name, double seconds) {
    table.rows.push_back({{name},
                          {step_text(seconds), CellKind::kNumber},
                          {percent_text(seconds / page.step_s), CellKind::kNumber},
                          bar_cell(seconds / page.step_s)});
  };
  for (const auto& [name, seconds] : parts) add(name, seconds);
  add("step", page.step_s);
  return "<section id=\"time\"><h2>Time by part</h2><p class=\"caption\">Mean over all devices. "
         "Communication is the part that does not overlap computation.</p>" +
         to_html(table) + "</section>";
}

std::string timeline_section(const PlanPage& page) {
  if (page.timeline_svg.empty()) return "";
  return fmt::format(
      "<section id=\"timeline\"><h2>The step on each stage</h2>{}"
      "<p class=\"caption\">Horizontal axis: time, from 0 to {}. A row is a pipeline stage: "
      "computation, below it the other queues, and the bytes in use of its arena. The name and "
      "duration of a bar appear under the pointer.</p><div class=\"planned\">{}</div></section>",
      color_legend(page.timeline_colors, page.timeline_svg), step_text(page.step_s),
      page.timeline_svg);
}

// One column of bytes per stage if there are several, and the bars of the fullest one.
std::string memory_table(const PlanPage& page) {
  const auto fullest =
      std::max_element(page.stages.begin(), page.stages.end(),
                       [](const StageMemory& a, const StageMemory& b) { return a.peak < b.peak; });
  const double most = std::max({fullest->peak, page.usable_bytes, 1.0});
  Table table;
  table.head = {"memory of a rank"};
  for (size_t s = 0; s < page.stages.size(); ++s)
    table.head.push_back(page.stages.size() == 1 ? "bytes" : fmt::format("stage {}", s));
  table.head.push_back(
      page.stages.size() == 1 ? "" : fmt::format("stage {}", fullest - page.stages.begin()));
  const auto add = [&](const std::string& name, const auto& bytes_of_stage) {
    std::vector<Cell> row = {{name}};
    for (const StageMemory& s : page.stages)
      row.push_back({bytes_of(bytes_of_stage(s)), CellKind::kNumber});
    row.push_back(bar_cell(bytes_of_stage(*fullest) / most));
    table.rows.push_back(std::move(row));
  };
  for (size_t i = 0; i < fullest->parts.size(); ++i)
    add(fullest->parts[i].first, [i](const StageMemory& s) { return s.parts[i].second; });
  add("peak", [](const StageMemory& s) { return s.peak; });
  add("usable memory of a device", [&](const StageMemory&) { return page.usable_bytes; });
  return to_html(table);
}

std::string memory_section(const PlanPage& page) {
  if (page.stages.empty()) return "";
  return "<section id=\"memory\"><h2>Memory by part</h2><div class=\"charts\" "
         "id=\"charts-memory\"></div>" +
         memory_table(page) + "</section>";
}

// States by what the layout loses against the first one of the front that beats it in both.
std::string beaten_text(const std::vector<SearchedLayout>& layouts,
                        const std::vector<size_t>& front, const SearchedLayout& own) {
  for (size_t i = 0; i < front.size(); ++i) {
    const SearchedLayout& other = layouts[front[i]];
    if (other.step_s > own.step_s || other.bytes > own.bytes) continue;
    if (other.step_s == own.step_s && other.bytes == own.bytes)
      return fmt::format("the same time and memory as layout {}", i + 1);
    if (other.step_s == own.step_s)
      return fmt::format("layout {} needs {} less and is as fast", i + 1,
                         bytes_of(own.bytes - other.bytes));
    if (other.bytes == own.bytes)
      return fmt::format("layout {} takes {} less and needs as much memory", i + 1,
                         step_text(own.step_s - other.step_s));
    return fmt::format("layout {} takes {} less and needs {} less", i + 1,
                       step_text(own.step_s - other.step_s), bytes_of(own.bytes - other.bytes));
  }
  return "";
}

std::string layouts_table(const SearchedLayouts& search, const std::vector<size_t>& front) {
  Table table;
  table.head = {"", "step", "memory", "MFU", "layout", "keys or reason"};
  const auto add = [&](const std::string& number, const SearchedLayout& l,
                       const std::string& note) {
    table.rows.push_back({{number},
                          {step_text(l.step_s), CellKind::kNumber},
                          {bytes_of(l.bytes), CellKind::kNumber},
                          {percent_text(l.mfu), CellKind::kNumber},
                          {l.text},
                          {note, CellKind::kText}});
  };
  for (size_t i = 0; i < front.size(); ++i)
    add(format_count(static_cast<int64_t>(i) + 1), search.layouts[front[i]],
        search.layouts[front[i]].keys);
  std::vector<size_t> others;
  for (size_t i = 0; i < search.layouts.size(); ++i)
    if (std::find(front.begin(), front.end(), i) == front.end()) others.push_back(i);
  std::stable_sort(others.begin(), others.end(), [&](size_t a, size_t b) {
    return search.layouts[a].step_s < search.layouts[b].step_s;
  });
  for (const size_t i : others)
    if (table.rows.size() < kMostRows)
      add("", search.layouts[i], beaten_text(search.layouts, front, search.layouts[i]));
  const int64_t omitted = std::ssize(search.layouts) - std::ssize(table.rows);
  if (omitted == 0) return to_html(table);
  return to_html(table) + fmt::format("<p class=\"caption\">{} slower layouts are not listed.</p>",
                                      format_count(omitted));
}

std::string search_section(const PlanPage& page) {
  if (!page.search) return "";
  const SearchedLayouts& search = *page.search;
  const std::vector<size_t> front = pareto_front(search.layouts);
  Table reasons;
  reasons.head = {"left out", "layouts"};
  for (const auto& [reason, count] : search.left_out)
    if (count > 0) reasons.rows.push_back({{reason}, {format_count(count), CellKind::kNumber}});
  return fmt::format(
      "<section id=\"layouts\"><h2>Layouts</h2><div class=\"charts\" id=\"charts-layouts\"></div>"
      "<p class=\"caption\">Numbered layouts are the Pareto front: of the layouts that were "
      "simulated and fit, no other one is better in step time or memory without being worse in "
      "the other. Layouts that are slower by a lower bound were not simulated, and may need less "
      "memory. Search time: {}.</p>{}{}</section>",
      escaped(search.seconds), layouts_table(search, front),
      reasons.rows.empty() ? "" : "<h3>Why layouts were left out</h3>" + to_html(reasons));
}

Tree list_of(const std::vector<double>& values) {
  Tree list = Tree::list();
  for (const double v : values) list.push(Tree(v));
  return list;
}

Tree memory_data(const PlanPage& page) {
  Tree data = Tree::object(), parts = Tree::list();
  const size_t count = page.stages.size() < 2 ? 0 : page.stages[0].parts.size();
  for (size_t i = 0; i < count; ++i) {
    std::vector<double> bytes;
    for (const StageMemory& s : page.stages) bytes.push_back(s.parts[i].second);
    Tree part = Tree::object();
    part.set("name", Tree(page.stages[0].parts[i].first));
    part.set("bytes", list_of(bytes));
    parts.push(std::move(part));
  }
  data.set("usable", Tree(page.usable_bytes));
  data.set("parts", std::move(parts));
  return data;
}

Tree layouts_data(const PlanPage& page) {
  Tree list = Tree::list();
  if (!page.search) return list;
  const std::vector<size_t> front = pareto_front(page.search->layouts);
  for (size_t i = 0; i < page.search->layouts.size(); ++i) {
    const SearchedLayout& l = page.search->layouts[i];
    Tree one = Tree::object();
    one.set("text", Tree(printable(l.text)));
    one.set("bytes", Tree(l.bytes));
    one.set("s", Tree(l.step_s));
    const auto at = std::find(front.begin(), front.end(), i);
    one.set("front", Tree(at == front.end() ? int64_t{0} : at - front.begin() + 1));
    list.push(std::move(one));
  }
  return list;
}

}  // namespace

std::vector<size_t> pareto_front(const std::vector<SearchedLayout>& layouts) {
  std::vector<size_t> order(layouts.size()), front;
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const SearchedLayout &x = layouts[a], &y = layouts[b];
    return x.step_s != y.step_s ? x.step_s < y.step_s : x.bytes < y.bytes;
  });
  for (const size_t i : order)
    if (front.empty() || layouts[i].bytes < layouts[front.back()].bytes) front.push_back(i);
  return front;
}

std::string plan_page(const PlanPage& page) {
  Tree data = Tree::object();
  data.set("memory", memory_data(page));
  data.set("layouts", layouts_data(page));
  return filled(plan_template(),
                {{"@TITLE@", escaped(page.title)},
                 {"@ABOUT@", escaped(page.about)},
                 {"@CHART_STYLES@", chart_styles()},
                 {"@STYLES@", page_styles()},
                 {"@SUMMARY@", tiles(page.facts)},
                 {"@LAYOUTS@", search_section(page)},
                 {"@TIME@", time_section(page)},
                 {"@TIMELINE@", timeline_section(page)},
                 {"@MEMORY@", memory_section(page)},
                 {"@FOOTER@", fmt::format("tessera {} · a prediction: nothing was run. Charts by "
                                          "dygraphs 2.2.1 (MIT license).",
                                          escaped(page.version))},
                 {"@DATA_JSON@", script_safe(to_json(data))},
                 {"@CHART_LIBRARY@", chart_library()},
                 {"@COMMON_SCRIPT@", common_script()},
                 {"@SCRIPT@", plan_script()}});
}

}  // namespace tessera::report
