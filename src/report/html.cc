// Builds the parts that pages share. filled() replaces all placeholders in one pass from left to
// right and does not look into the texts that it inserts, so a run whose name contains a
// placeholder cannot change the page. JSON inside a script element must not contain "</script>";
// script_safe() writes every < as an escape, which is the same JSON.
#include "report/html.h"

#include <algorithm>
#include <cmath>

#include "base/count.h"
#include "base/tree.h"
#include "report/page.h"

namespace tessera::report {
namespace {

std::string_view class_of(CellKind kind) {
  switch (kind) {
    case CellKind::kNumber:
      return " class=\"n\"";
    case CellKind::kTime:
      return " class=\"time\"";
    case CellKind::kText:
      return " class=\"wrap\"";
    case CellKind::kBar:
      return " class=\"bar\"";
    case CellKind::kPlain:
      return "";
  }
  return "";
}

}  // namespace

std::string to_html(const Table& table) {
  std::string out = "<div class=\"scroll\"><table><thead><tr>";
  for (size_t c = 0; c < table.head.size(); ++c) {
    const bool has_kind = !table.rows.empty() && c < table.rows[0].size();
    const CellKind kind = has_kind ? table.rows[0][c].kind : CellKind::kPlain;
    out += fmt::format("<th{}>{}</th>", class_of(kind), escaped(table.head[c]));
  }
  out += "</tr></thead><tbody>";
  for (size_t r = 0; r < table.rows.size(); ++r) {
    out += r < table.classes.size() ? fmt::format("<tr class=\"{}\">", escaped(table.classes[r]))
                                    : "<tr>";
    for (const Cell& cell : table.rows[r])
      out += fmt::format("<td{}>{}</td>", class_of(cell.kind),
                         cell.kind == CellKind::kBar ? cell.text : escaped(cell.text));
    out += "</tr>";
  }
  return out + "</tbody></table></div>";
}

Cell bar_cell(double share) {
  const double percent = 100 * std::clamp(std::isfinite(share) ? share : 0.0, 0.0, 1.0);
  return {fmt::format("<i style=\"width:{:.1f}%\"></i>", percent), CellKind::kBar};
}

std::string filled(std::string_view page, const TemplateTexts& texts) {
  std::string out;
  while (!page.empty()) {
    size_t first = std::string_view::npos;
    const TemplateTexts::value_type* found = nullptr;
    for (const auto& text : texts) {
      const size_t at = page.find(text.first);
      if (at >= first) continue;
      first = at;
      found = &text;
    }
    out += page.substr(0, first);
    if (!found) break;
    out += found->second;
    page.remove_prefix(first + found->first.size());
  }
  return out;
}

std::string script_safe(std::string_view json) {
  std::string safe;
  for (const char c : json) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

std::string color_legend(const NamedColors& colors, std::string_view svg) {
  std::string out = "<div class=\"keys\">";
  for (const auto& [meaning, color] : colors)
    if (svg.find(fmt::format("fill=\"{}\"", color)) != std::string_view::npos)
      out += fmt::format("<span><i class=\"swatch\" style=\"background:{}\"></i>{}</span>",
                         escaped(color), escaped(meaning));
  return out + "</div>";
}

std::string tiles(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string out = "<div class=\"tiles\">";
  for (const auto& [name, value] : facts)
    out += fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>", escaped(value),
                       escaped(name));
  return out + "</div>";
}

std::string mixture_table(const std::string& train, const std::string& stages, double tokens) {
  std::string out;
  try {
    const Tree tree = parse_json(train.empty() ? "[]" : train, "data.train");
    const Tree::List* const sources = tree.as_list();
    double sum = 0;
    const auto weight = [](const Tree& source) {
      const Tree* const w = source.find("weight");
      return w ? number_in(*w).value_or(1) : 1.0;
    };
    if (sources)
      for (const Tree& source : *sources) sum += weight(source);
    if (sources && !sources->empty() && sum > 0) {
      Table table;
      table.head = {"source", "share of the samples", "", "tokens so far, about"};
      for (const Tree& source : *sources) {
        const double share = weight(source) / sum;
        table.rows.push_back(
            {{text_or_empty(source.find("prefix"))},
             {percent_text(share), CellKind::kNumber},
             bar_cell(share),
             {std::isfinite(tokens) ? amount_text(share * tokens) : "–", CellKind::kNumber}});
      }
      out += to_html(table);
    }
  } catch (const Error&) {
    return "";  // the configuration is shown as it is written
  }
  if (!stages.empty() && stages != "[]")
    out += fmt::format("<p class=\"caption\">The blend changes by data.stages: {}</p>",
                       escaped(stages));
  return out;
}

}  // namespace tessera::report
