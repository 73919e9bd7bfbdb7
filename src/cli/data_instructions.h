// `tessera data explain` of a run that trains on data.instructions.
#pragma once

#include <optional>

#include "config/run_config.h"

namespace tessera {

// Prints how many examples, rows and tokens there are, what was left out, and the rows of a step or
// one sample: the text of each example with its learned parts in brackets. Returns the exit code.
int explain_instructions(const RunConfig& run, std::optional<int64_t> step, int64_t sample,
                         bool json);

}  // namespace tessera
