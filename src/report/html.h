// Tables and other pieces of HTML, and templates.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::report {

enum class CellKind : uint8_t {
  kPlain,
  kNumber,  // aligned to the right
  kTime,    // never wrapped
  kText,    // wrapped anywhere, keeps its line breaks
  kBar,     // made by bar_cell()
};

struct Cell {
  std::string text;
  CellKind kind = CellKind::kPlain;
};

struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<Cell>> rows;  // the kinds of the first row apply to the head
  std::vector<std::string> classes;     // one per row, or empty
};

std::string to_html(const Table& table);

// A horizontal bar of `share` (0 to 1) of the cell's width.
Cell bar_cell(double share);

// Placeholders of a template, "@NAME@", and the texts that replace them.
using TemplateTexts = std::vector<std::pair<std::string_view, std::string>>;

// Replaces each @NAME@ of the template once. Texts are not searched for further names.
std::string filled(std::string_view page, const TemplateTexts& texts);

// Returns JSON that may be in a <script>: "</script>" in a text does not end the element.
std::string script_safe(std::string_view json);

// Colors of a drawing: a meaning, and a color as in "#4c8bf5".
using NamedColors = std::vector<std::pair<std::string, std::string>>;
// Returns a legend of those colors that `svg` fills something with.
std::string color_legend(const NamedColors& colors, std::string_view svg);

// Large values with small names below them.
std::string tiles(const std::vector<std::pair<std::string, std::string>>& facts);

// The sources of a blend with their weights. `train` and `stages` are the values of data.train and
// data.stages as JSON; `tokens`: trained so far, or NaN. Empty if there is no blend to show.
std::string mixture_table(const std::string& train, const std::string& stages, double tokens);

}  // namespace tessera::report
