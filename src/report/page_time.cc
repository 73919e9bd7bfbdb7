// Writes what the page shows of time and memory: the traced step of all ranks, the time of each
// kind of op, and planned against measured bytes.
//
// The timeline of a rank is an SVG with one path per activity instead of one element per bar,
// because a step of many ranks has more bars than a browser can display quickly. Bars that are
// narrower than a pixel get a minimum width, so that a short transfer stays visible.
//
// The op table joins the traced and the planned step by the names of ops; what only one of them has
// is shown with a dash.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/count.h"
#include "report/html.h"
#include "report/page.h"

namespace tessera::report {
namespace {

constexpr size_t kMostRanks = 64;
constexpr double kWidth = 1000, kComputeHeight = 16, kTransferHeight = 5;

std::string_view class_of(Activity a) {
  static constexpr EnumArray<Activity, std::string_view> kClasses = {
      "forward", "head", "backward", "recompute", "update", "transfer", "other"};
  return kClasses[a];
}

// Returns the bars of one activity as an SVG path, a rectangle each.
std::string path_of(const TraceRow& row, Activity activity, double y, double height,
                    double duration_s) {
  std::string d;
  for (const TraceBar& b : row.bars) {
    if (b.activity != activity) continue;
    const double width = std::max(0.4, b.duration_s / duration_s * kWidth);
    fmt::format_to(std::back_inserter(d), "M{:.1f} {}h{:.1f}v{}h-{:.1f}z",
                   b.start_s / duration_s * kWidth, y, width, height, width);
  }
  return d.empty() ? "" : fmt::format("<path class=\"{}\" d=\"{}\"/>", class_of(activity), d);
}

std::string rank_svg(const TraceRank& rank, double duration_s) {
  double y = 1;
  std::string paths, queues;
  for (size_t i = 0; i < rank.rows.size(); ++i) {
    const double height = i == 0 ? kComputeHeight : kTransferHeight;
    for (const Activity a : Enumerators<Activity>())
      paths += path_of(rank.rows[i], a, y, height, duration_s);
    y += height + 1;
    queues += (i == 0 ? "" : ", ") + rank.rows[i].queue;
  }
  return fmt::format(
      "<svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" style=\"height:{}px\" role=\"img\">"
      "<title>rank {}, from the top: {}</title>{}</svg>",
      kWidth, y, y, rank.rank, escaped(queues), paths);
}

std::string timeline(const Trace& trace) {
  std::string out = "<div class=\"keys\">";
  for (const Activity a : Enumerators<Activity>())
    out += fmt::format("<span><i class=\"swatch {}\"></i>{}</span>", class_of(a), name_of(a));
  out += "</div><div class=\"timeline\">";
  const size_t shown = std::min(trace.ranks.size(), kMostRanks);
  for (size_t r = 0; r < shown; ++r)
    out += fmt::format("<span>rank {}</span>{}", trace.ranks[r].rank,
                       rank_svg(trace.ranks[r], trace.duration_s));
  out += "<span></span><div class=\"ticks\">";
  for (int quarter = 0; quarter <= 4; ++quarter)
    out += fmt::format("<span>{}</span>",
                       quarter == 0 ? "0" : step_text(trace.duration_s * quarter / 4));
  out += "</div></div>";
  if (shown < trace.ranks.size())
    out += fmt::format("<p class=\"caption\">The first {} of {} ranks.</p>", shown,
                       trace.ranks.size());
  return out;
}

struct OpRow {
  std::string op;
  double planned_s = 0, measured_s = 0, limit_s = 0;
};

std::vector<OpRow> op_rows(const Trace* trace, const Planned* planned) {
  std::vector<OpRow> rows;
  const auto row = [&rows](const std::string& op) -> OpRow& {
    const auto at =
        std::find_if(rows.begin(), rows.end(), [&op](const OpRow& r) { return r.op == op; });
    return at == rows.end() ? rows.emplace_back(OpRow{op, 0, 0, 0}) : *at;
  };
  if (trace)
    for (const OpShare& op : trace->ops) {
      OpRow& r = row(op.op);
      r.measured_s = op.seconds;
      r.limit_s = op.limit_s;
    }
  if (planned)
    for (const auto& [op, seconds] : planned->parts) row(op).planned_s = seconds;
  std::erase_if(rows, [](const OpRow& r) { return r.measured_s <= 0 && r.planned_s <= 0; });
  std::stable_sort(rows.begin(), rows.end(), [](const OpRow& a, const OpRow& b) {
    return std::max(a.measured_s, a.planned_s) > std::max(b.measured_s, b.planned_s);
  });
  return rows;
}

std::string op_table(const Trace* trace, const Planned* planned) {
  const double step_s = std::max(trace ? trace->duration_s : 0, planned ? planned->step_s : 0);
  Table table;
  table.head = {"op"};
  if (planned) table.head.insert(table.head.end(), {"planned"});
  if (trace) table.head.insert(table.head.end(), {"measured", "share", "", "of the matrix rate"});
  const auto add = [&](const OpRow& r, double planned_step, double measured_step) {
    std::vector<Cell> cells = {{r.op}};
    const auto time = [](double s) { return s > 0 ? step_text(s) : std::string("–"); };
    if (planned) cells.push_back({time(planned_step), CellKind::kNumber});
    if (trace) {
      cells.push_back({time(measured_step), CellKind::kNumber});
      cells.push_back({percent_text(measured_step / trace->duration_s), CellKind::kNumber});
      cells.push_back(bar_cell(measured_step / step_s));
      cells.push_back(
          {r.limit_s > 0 && r.measured_s > 0 ? percent_text(r.limit_s / r.measured_s) : "–",
           CellKind::kNumber});
    }
    table.rows.push_back(std::move(cells));
  };
  for (const OpRow& r : op_rows(trace, planned)) add(r, r.planned_s, r.measured_s);
  add({"step", 0, 0, 0}, planned ? planned->step_s : 0, trace ? trace->duration_s : 0);
  return to_html(table);
}

}  // namespace

std::string time_section(std::span<const RunData> runs, const std::optional<Planned>& planned) {
  const std::vector<std::string> names = names_of(runs);
  std::string out;
  for (size_t r = 0; r < runs.size(); ++r) {
    const Trace* const trace = runs[r].trace ? &*runs[r].trace : nullptr;
    const Planned* const own = planned && r == 0 ? &*planned : nullptr;
    if (!trace && !own) continue;
    std::string caption;
    if (trace) caption += "Measured: " + escaped(trace->title) + ", mean over the ranks.";
    if (own) caption += " Planned: simulated on " + escaped(own->machine) + ".";
    if (runs.size() > 1) out += fmt::format("<h3>{}</h3>", escaped(names[r]));
    out += fmt::format("<p class=\"caption\">{}</p>", caption);
    if (trace) out += timeline(*trace);
    out += op_table(trace, own);
    if (own && !own->timeline_svg.empty())
      out += fmt::format("<h3>The planned step</h3>{}<div class=\"planned\">{}</div>",
                         color_legend(own->timeline_colors, own->timeline_svg), own->timeline_svg);
  }
  return out.empty()
             ? ""
             : "<section id=\"time\"><h2>Where a step’s time goes</h2>" + out + "</section>";
}

}  // namespace tessera::report
