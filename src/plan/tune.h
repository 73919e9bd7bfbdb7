// Finds the fastest point of a space in few trials, each of which may fail, by Bayesian
// optimization with a prior. The tuner does no I/O: the caller runs the trials, several at once if
// it can.
//
//   Tuner tuner(space, prior, {.seed = 1});
//   for (const size_t point : tuner.ask(2)) …run…
//   tuner.tell(point, {Outcome::kRan, seconds});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/enum_array.h"
#include "plan/acquisition.h"

namespace tessera::plan {

enum class Outcome : uint8_t { kRan, kOutOfMemory, kTimeOut, kFailed };
constexpr size_t count_of(Outcome) { return static_cast<size_t>(Outcome::kFailed) + 1; }
const char* name_of(Outcome outcome);            // "ran", "out of memory", "time-out", "failed"
Outcome parse_outcome(const std::string& name);  // Throws Error

struct TrialResult {
  Outcome outcome = Outcome::kFailed;
  double seconds = 0;  // per step, if it ran
};

// The estimate of a point before any trial: a simulator's prediction.
struct PriorBelief {
  double seconds = 1;   // per step
  double log_odds = 0;  // log-odds that the point runs
};

struct TunerOptions {
  uint64_t seed = 1;  // random seed of the choice among points without information
  // The number of random points before the model is used, without a prior.
  size_t first_draws = 6;
};

class Tuner {
 public:
  // `prior` has one entry per point, or is empty.
  Tuner(Space space, std::vector<PriorBelief> prior, const TunerOptions& options);

  // Returns the indices of the next n points to try, none of them returned or reported before;
  // fewer when the space is exhausted. Running trials count as observed at their expected value
  // ("kriging believer", Ginsbourger et al. 2010), so points that are returned together differ.
  std::vector<size_t> ask(size_t n);
  // Records the result of a trial, from this run of the tuner or an earlier one.
  void tell(size_t point, const TrialResult& result);

  const Space& space() const { return space_; }
  // Returns the index of the fastest trial so far.
  std::optional<size_t> best() const;
  // Returns the expected log(seconds) of every point, by the surrogate of all recorded results.
  std::vector<double> expected() const;

 private:
  struct Observation {
    size_t point;
    TrialResult result;
  };
  struct Seen {
    std::vector<Point> points;
    std::vector<double> residuals;  // log(seconds) minus that of the prior
  };
  size_t next() const;
  size_t draw() const;
  double prior_of(size_t point) const;
  double odds_of(size_t point) const;
  Seen seen() const;
  Surrogate model() const;
  Feasibility feasibility() const;
  const Observation* fastest() const;

  Space space_;
  Distances distances_;
  std::vector<PriorBelief> prior_;
  TunerOptions options_;
  Kernel kernel_;
  std::vector<Observation> told_;
  std::vector<bool> taken_;  // recorded or running
  std::vector<size_t> running_;
};

}  // namespace tessera::plan
