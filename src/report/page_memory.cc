// Writes the tables of memory: of one run a row per use; of several runs a row per run, and the
// table of each run folded below it.
#include <algorithm>
#include <cmath>

#include "base/count.h"
#include "report/html.h"
#include "report/page.h"

namespace tessera::report {
namespace {

using Bytes = std::optional<double>;

constexpr double kGibi = 1 << 30;

// Formats a figure of a row whose largest figure is `most` bytes. Figures of a row have one unit,
// unless one of them would be 0.00 GiB.
std::string memory_text(Bytes bytes, double most) {
  if (!bytes) return "–";
  if (*bytes == 0) return "0";
  if (most >= kGibi && *bytes >= kGibi / 100) return fmt::format("{:.2f} GiB", *bytes / kGibi);
  if (*bytes >= 0.1 * (1 << 20)) return fmt::format("{:.1f} MiB", *bytes / (1 << 20));
  return bytes_text(std::llround(*bytes));
}

double peak(const std::vector<double>& values) {
  double most = 0;
  for (const double x : values)
    if (std::isfinite(x)) most = std::max(most, x);
  return most;
}

struct MemoryRow {
  std::string use;
  Bytes planned, measured;
};

// On a GPU, the plan is about its memory, and the process is on the host.
bool is_on_gpu(const Memory& m) {
  return m.allocated &&
         std::ranges::none_of(m.parts, [](auto& p) { return p.measured.has_value(); });
}

// Returns the rows of a run: the parts of the arena first, then the totals.
std::vector<MemoryRow> rows_of(const RunData& run) {
  const Memory& m = run.log.memory;
  std::vector<MemoryRow> rows;
  for (const MemoryLine& part : m.parts) rows.push_back({part.name, part.bytes, part.measured});
  if (m.arena) rows.push_back({"arena", m.arena, m.allocated});
  if (m.outside) rows.push_back({"outside the arena, at most", m.outside, m.measured_outside});
  const double resident = peak(run.steps.values[Column::kResidentBytes]);
  const double all = m.arena.value_or(0) + m.outside.value_or(0);
  if (resident > 0)
    rows.push_back(
        {"process on rank 0, at most", is_on_gpu(m) ? std::nullopt : Bytes(all), resident});
  return rows;
}

double largest(const MemoryRow& row) {
  return std::max(row.planned.value_or(0), row.measured.value_or(0));
}

std::string table_of(const std::vector<MemoryRow>& rows) {
  double most = 1;
  for (const MemoryRow& row : rows) most = std::max(most, largest(row));
  Table table;
  table.head = {"memory of a rank", "planned", "measured",
                "planned, as a share of " + memory_text(most, most)};
  for (const MemoryRow& row : rows)
    table.rows.push_back({{row.use},
                          {memory_text(row.planned, largest(row)), CellKind::kNumber},
                          {memory_text(row.measured, largest(row)), CellKind::kNumber},
                          bar_cell(row.planned.value_or(row.measured.value_or(0)) / most)});
  return to_html(table);
}

// Returns the planned bytes, and the measured ones if they are known and look different.
std::string planned_and_measured(const MemoryRow& row) {
  const std::string planned = memory_text(row.planned, largest(row)),
                    measured = memory_text(row.measured, largest(row));
  return !row.measured || planned == measured ? planned : planned + " / " + measured;
}

// Makes a row per run and a column per use that takes memory.
std::string comparison_of(const std::vector<std::vector<MemoryRow>>& runs,
                          const std::vector<std::string>& names) {
  std::vector<std::string> uses;
  for (const auto& rows : runs)
    for (const MemoryRow& row : rows)
      if (largest(row) > 0 && std::ranges::find(uses, row.use) == uses.end())
        uses.push_back(row.use);
  Table table;
  table.head = {"planned / measured"};
  table.head.insert(table.head.end(), uses.begin(), uses.end());
  for (size_t r = 0; r < runs.size(); ++r) {
    if (runs[r].empty()) continue;
    std::vector<Cell> cells = {{names[r]}};
    for (const std::string& use : uses) {
      const auto row = std::ranges::find(runs[r], use, &MemoryRow::use);
      cells.push_back({row == runs[r].end() ? "–" : planned_and_measured(*row), CellKind::kNumber});
    }
    table.rows.push_back(std::move(cells));
  }
  return table.rows.empty() ? "" : to_html(table);
}

}  // namespace

std::string memory_table(std::span<const RunData> runs) {
  std::vector<std::vector<MemoryRow>> all;
  for (const RunData& run : runs) all.push_back(rows_of(run));
  if (runs.size() == 1) return all[0].empty() ? "" : table_of(all[0]);
  const std::vector<std::string> names = names_of(runs);
  std::string out = comparison_of(all, names);
  for (size_t r = 0; r < runs.size(); ++r)
    if (!all[r].empty())
      out += fmt::format("<details><summary>memory of {}</summary>{}</details>", escaped(names[r]),
                         table_of(all[r]));
  return out;
}

}  // namespace tessera::report
