// HTML tables.
#pragma once

#include <string>
#include <string_view>
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

// The sources of a blend with their weights. `train` and `stages` are the values of data.train and
// data.stages as JSON; `tokens`: trained so far, or NaN. Empty if there is no blend to show.
std::string mixture_table(const std::string& train, const std::string& stages, double tokens);

}  // namespace tessera::report
