// The picture of a run that `tessera watch` shows on a terminal.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/run_data.h"

namespace tessera::report {

struct ScreenSize {
  int columns = 80, rows = 24;
};

// Lines of at most `size.columns` columns, at most `size.rows` of them: the loss over all steps,
// the figures of the last step, ranks, memory, and the last event. `state`: whether the run is
// running, such as "running, last line 3 s ago". `ranks`: what they are doing (rank_rows.h), of
// which the first few lines are shown.
std::vector<std::string> screen(const RunData& run, const std::string& state,
                                const std::vector<std::string>& ranks, const ScreenSize& size);

// A curve of `columns` by `rows` Braille characters, from the top: 2 × 4 dots each, the range of
// the values of each dot column, joined to its neighbors. Blank for values that are not finite.
std::vector<std::string> braille(std::span<const double> values, int columns, int rows);

}  // namespace tessera::report
