// Runs the trials of a sweep as child processes, rung by rung and several at once.
//
// A trial is an ordinary run of this program in its own directory, with run.stop_after_steps at the
// next rung; the run resumes from its checkpoint there. All trials of a rung end before the next
// rung begins, so the order in which they end does not matter.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/child.h"
#include "sweep/record.h"

namespace tessera::sweep {

struct TrialOptions {
  int64_t jobs = 1;     // trials at once
  int64_t threads = 0;  // run.threads of each rank; 0: the value of the run file
  // The GPUs of each job, as values of CUDA_VISIBLE_DEVICES; empty: all jobs see all of them.
  std::vector<std::string> devices;
  bool keep = false;  // keep the checkpoints of trials that were stopped
  std::function<bool()> stop_requested = [] { return false; };
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

// Returns the keys that every trial sets in addition to its point.
std::vector<std::string> trial_keys(const Path& directory, int64_t steps);

// Returns the score of a trial at `steps` by the lines of its metrics.jsonl: the mean of the
// validation losses of that step, or, for "loss", the mean of the training losses of the last tenth
// of the steps. Returns +inf if a loss is not finite, and nothing if the lines do not reach
// `steps`.
std::optional<double> score_of(const std::string& metrics_lines, const std::string& score,
                               int64_t steps);

// Runs what is missing of the sweep in `directory`, and stores each result there. Returns false if
// a stop was requested; then the running trials have saved their state.
bool run_trials(SweepRecord& record, const Path& directory, const TrialOptions& options);

}  // namespace tessera::sweep
