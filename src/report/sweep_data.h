// A sweep as a report shows it: sweep.json (sweep/record.h) of its directory, as a table and as one
// chart per key.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace tessera::report {

struct SweepKey {
  std::string key;
  bool numeric = false, logarithmic = false;  // how the chart shows its values
  bool listed = false;  // its values were listed in the sweep, not sampled from a range
};

struct SweepTrial {
  int64_t number = 0;
  std::vector<std::string> values;  // by key
  std::string outcome;
  int64_t steps = 0;
  double score = 0;  // NaN if it has none
  Path directory;
};

struct SweepData {
  std::string name;   // the name of its directory
  std::string score;  // "validation_loss"
  std::string method;
  std::vector<std::string> rungs;  // "12 trials to step 50"
  std::vector<SweepKey> keys;
  std::vector<SweepTrial> trials;  // the best one first: by steps, then by score
  int64_t steps_taken = 0, steps_in_full = 0;
};

bool is_sweep(const Path& directory);

// Throws Error if the file is missing or damaged.
SweepData read_sweep(const Path& directory);

// The section of the page: the best trial, a chart per key, and the table of all trials.
std::string sweep_section(const SweepData& sweep);

}  // namespace tessera::report
