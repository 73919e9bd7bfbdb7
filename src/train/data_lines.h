// The log lines of a run about its data.
#pragma once

#include <string>
#include <vector>

#include "train/metrics.h"
#include "train/run_data.h"

namespace tessera {

// Returns the amount of data and how often a run of `samples` samples reads it; of instructions the
// counts of examples, rows, padding and skipped examples, for each validation set too. A line that
// starts with "warning" follows where the data is read many times.
std::vector<std::string> data_lines(const TrainingRows& rows,
                                    const std::vector<ValidationSet>& validation, int64_t samples);

// Returns the same counts for scripts.
Tree data_counts(const TrainingRows& rows, int64_t samples);

// Returns the result of validating one set as a line of the log.
std::string validation_line(const ValidationMetrics& m);

}  // namespace tessera
