// Renders the actions of a pipeline as text and as SVG. One unit of time is the greatest common
// divisor of all starts and finishes, so every action has an integer number of columns.
#include "compile/schedule/timeline.h"

#include <algorithm>
#include <numeric>

#include "base/config.h"
#include "base/error.h"
#include "base/real.h"
#include "compile/schedule/pipeline.h"

namespace tessera::compile {
namespace {

constexpr const char* kLetters[] = {"F", "B", "W"};
constexpr const char* kWords[] = {"forward", "backward", "weight-gradient part of the backward"};
constexpr const char* kColors[] = {"#9ecae1", "#a1d99b", "#fdd0a2"};

// Pixels.
constexpr int64_t kUnit = 14, kRow = 26, kLeft = 60, kTop = 40;

struct Timeline {
  std::vector<std::vector<Action>> rows;
  int64_t unit = 1;  // divides every start and finish
  int64_t end = 0;   // in units
  double idle = 0;   // share of the total time of all stages
};

Timeline timeline_of(const PipelineShape& shape) {
  Timeline t;
  t.rows = pipeline_actions(shape);
  int64_t unit = 0, end = 0, busy = 0;
  for (const auto& row : t.rows)
    for (const Action& a : row) {
      unit = std::gcd(unit, std::gcd(a.start, a.finish));
      end = std::max(end, a.finish);
      busy += a.finish - a.start;
    }
  t.unit = std::max<int64_t>(unit, 1);
  t.end = end / t.unit;
  if (end > 0) t.idle = 1 - ratio(busy, end * shape.stages);
  return t;
}

std::string heading(const PipelineShape& p, const Timeline& t) {
  const std::string chunks = p.interleave > 1 ? fmt::format(" of {} chunks", p.interleave) : "";
  return fmt::format("{}: {} stages{}, {} micro-batches, {} units of time, {:.0f} % of it idle",
                     name_of_entry(p.schedule), p.stages, chunks, p.microbatches, t.end,
                     100 * t.idle);
}

std::string label(const PipelineShape& p, const Action& a) {
  std::string text = kLetters[static_cast<int>(a.kind)] + std::to_string(a.microbatch);
  if (p.interleave > 1) text += static_cast<char>('a' + a.chunk / p.stages % 26);
  return text;
}

// Returns the number of columns per unit at which every label and a space fit into their action.
int64_t columns(const PipelineShape& p, const Timeline& t) {
  int64_t most = 1;
  for (const auto& row : t.rows)
    for (const Action& a : row) {
      const int64_t units = (a.finish - a.start) / t.unit;
      const int64_t wanted = std::ssize(label(p, a)) + 1;
      most = std::max(most, (wanted + units - 1) / units);
    }
  return most;
}

std::string rectangle(const PipelineShape& p, const Timeline& t, int64_t stage, const Action& a) {
  const auto kind = static_cast<size_t>(a.kind);
  const int64_t x = kLeft + a.start / t.unit * kUnit, y = kTop + stage * kRow;
  const int64_t width = (a.finish - a.start) / t.unit * kUnit;
  return fmt::format(
      "<g><title>stage {}: {} of micro-batch {}, chunk {}, from {} to {}</title>"
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"#ffffff\"/>"
      "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text></g>\n",
      stage, kWords[kind], a.microbatch, a.chunk, a.start / t.unit, a.finish / t.unit, x, y, width,
      kRow - 2, kColors[kind], x + width / 2, y + kRow - 9,
      p.interleave > 1 ? label(p, a).substr(1) : std::to_string(a.microbatch));
}

}  // namespace

// A label is at the start of its action; dashes (for a backward) or spaces fill the rest.
std::string timeline_text(const PipelineShape& shape) {
  const Timeline t = timeline_of(shape);
  const int64_t wide = columns(shape, t);
  const auto margin = std::to_string(shape.stages - 1).size();
  std::string out = heading(shape, t) + "\n";
  for (size_t s = 0; s < t.rows.size(); ++s) {
    std::string row;
    for (const Action& a : t.rows[s]) {
      row.resize(a.start / t.unit * wide, ' ');
      row += label(shape, a);
      row.resize(a.finish / t.unit * wide - 1, a.kind == ActionKind::kForward ? ' ' : '-');
    }
    while (row.ends_with(' ')) row.pop_back();
    out += fmt::format("{:>{}} {}\n", s, margin, row);
  }
  return out;
}

std::string timeline_svg(const PipelineShape& shape) {
  const Timeline t = timeline_of(shape);
  const int64_t width = kLeft + t.end * kUnit + 10, height = kTop + shape.stages * kRow + 10;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" font-family=\"sans-serif\" font-size=\"10\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n"
      "<text x=\"4\" y=\"20\" font-size=\"13\">{2}</text>\n",
      width, height, heading(shape, t));
  for (size_t s = 0; s < t.rows.size(); ++s) {
    const auto stage = static_cast<int64_t>(s);
    out += fmt::format("<text x=\"4\" y=\"{}\">stage {}</text>\n", kTop + stage * kRow + kRow - 9,
                       stage);
    for (const Action& a : t.rows[s]) out += rectangle(shape, t, stage, a);
  }
  return out + "</svg>\n";
}

}  // namespace tessera::compile
