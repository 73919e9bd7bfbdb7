// The state of a sweep and its file, sweep.json: what is tried, and the result of each trial at
// each rung. The file is replaced atomically after each result, so a sweep that was stopped
// continues from it.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/tree.h"
#include "sweep/halving.h"
#include "sweep/parameters.h"

namespace tessera::sweep {

enum class Method : uint8_t { kRandom, kGrid };
constexpr const char* enum_names(Method) { return "random|grid"; }

// Everything that the results depend on. A stored result counts only for an equal definition.
struct Definition {
  std::string run;                // the run file
  std::vector<std::string> keys;  // overrides with one value
  std::string hash;               // the hash of the configuration without the parameters
  std::vector<Parameter> parameters;
  Method method = Method::kRandom;
  int64_t seed = 1, ranks = 1, eta = 1;
  std::string score;  // "validation_loss", or "loss" for a run without validation data
  std::vector<Rung> rungs;
};

enum class Outcome : uint8_t {
  kWaiting,   // has not reached its last rung yet
  kFinished,  // ran all steps
  kStopped,   // ended at a rung because others were better
  kDiverged,  // its loss was not finite, or it diverged
  kFailed,    // ended with an error
};
constexpr size_t count_of(Outcome) { return static_cast<size_t>(Outcome::kFailed) + 1; }
const char* name_of(Outcome outcome);  // "waiting", "finished", …

struct RungResult {
  int64_t steps = 0;
  double score = std::numeric_limits<double>::infinity();
};

struct TrialRecord {
  Point point;
  Outcome outcome = Outcome::kWaiting;
  std::vector<RungResult> results;  // by rung
  std::string why;                  // the last line that it printed, if it failed

  int64_t steps() const { return results.empty() ? 0 : results.back().steps; }
  // Returns the score at its last rung, +inf if there is none.
  double score() const;
  // Returns whether it has a score and neither diverged nor failed after it.
  bool works() const;
};

struct SweepRecord {
  Definition definition;
  std::vector<TrialRecord> trials;

  // Returns the trials by the number of their steps, then by their score: the best one first.
  std::vector<size_t> ranking() const;
  // Returns the first of the ranking, if it works.
  std::optional<size_t> best() const;
  int64_t steps_taken() const;  // by all trials together
  int64_t steps_in_full() const;
};

// Returns the path of a trial's directory, relative to the sweep's: "trials/007".
std::string directory_of(size_t trial);

Tree as_tree(const SweepRecord& record);
void write_record(const Path& file, const SweepRecord& record);

// Returns the record in the file with the definition given, or a new one with these points if there
// is no file. Throws Error if the file is damaged or has another definition or other points.
SweepRecord read_record(const Path& file, const Definition& definition,
                        const std::vector<Point>& points);

// Returns the table that `tessera sweep` prints: rank, trial, values, steps, score, outcome. It has
// no times, so it is the same for every sweep of the same definition.
std::string table_of(const SweepRecord& record);

}  // namespace tessera::sweep
