// Successive halving (Jamieson and Talwalkar 2016): all trials run for a few steps, and of each
// rung the best 1/η continue to the next one, up to the length of the run. A trial continues from
// its checkpoint, so no step is repeated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::sweep {

struct Rung {
  int64_t steps = 0;   // steps of each trial since its start
  int64_t trials = 0;  // that reach it

  bool operator==(const Rung&) const = default;
};

struct Halving {
  int64_t eta = 1;        // η; 1: one rung, all trials in full
  int64_t least = 1;      // steps of the first rung, at least
  int64_t finalists = 3;  // trials that reach the end, at least
};

// Returns the rungs of `trials` runs of `steps` steps. Rung i of r = ⌊log_η trials⌋ + 1 has
// ⌈steps / η^(r−1−i)⌉ steps and ⌊trials / η^i⌋ trials, but no fewer than the finalists. Rungs with
// fewer than `least` steps are omitted, and their trials begin at the next one. A rung that would
// stop no trial is omitted too.
std::vector<Rung> rungs_of(int64_t trials, int64_t steps, const Halving& halving);

// Returns the sum of the steps of all trials.
int64_t steps_of(const std::vector<Rung>& rungs);

// Returns the `keep` trials with the smallest scores, best first; of equal ones, that with the
// smaller index. Scores that are not finite come last and are never kept.
std::vector<size_t> best_of(const std::vector<double>& scores, int64_t keep);

}  // namespace tessera::sweep
