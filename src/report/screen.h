// The picture of a run that `tessera watch` shows on a terminal, and its lines about the ranks.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "report/run_data.h"

namespace tessera::report {

// Reads ranks.json, which `tessera launch` writes to the run directory. Returns one line per group
// of ranks with the same activity, the longest activity first:
//   "ranks 0-2 wait 12 s at step 7: backward.layer of layer 3: all_reduce of … over data"
// Empty if there is no such file, or it cannot be read. In rank_rows.cc.
std::vector<std::string> rank_lines(const Path& run_directory);

struct ScreenSize {
  int columns = 80, rows = 24;
};

// Lines of at most `size.columns` columns, at most `size.rows` of them: the loss over all steps,
// the figures of the last step, ranks, memory, and the last event. `state`: whether the run is
// running, such as "running, last line 3 s ago". `ranks`: what they are doing (rank_lines), of
// which the first few lines are shown.
std::vector<std::string> screen(const RunData& run, const std::string& state,
                                const std::vector<std::string>& ranks, const ScreenSize& size);

// A curve of `columns` by `rows` Braille characters, from the top: 2 × 4 dots each, the range of
// the values of each dot column, joined to its neighbors. Blank for values that are not finite.
std::vector<std::string> braille(std::span<const double> values, int columns, int rows);

}  // namespace tessera::report
