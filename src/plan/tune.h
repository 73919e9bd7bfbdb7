// Finds the fastest point of a space in few trials, each of which may fail: Bayesian optimisation
// with a prior. Pure: the caller runs the trials, as many at once as it has machines.
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
#include "plan/acquire.h"

namespace tessera::plan {

enum class Outcome : uint8_t { kRan, kOutOfMemory, kTimeOut, kFailed };
constexpr size_t count_of(Outcome) { return static_cast<size_t>(Outcome::kFailed) + 1; }
const char* name_of(Outcome outcome);            // "ran", "out of memory", "time-out", "failed"
Outcome parse_outcome(const std::string& name);  // Throws Error

struct TrialResult {
  Outcome outcome = Outcome::kFailed;
  double seconds = 0;  // of a step, where it ran
};

// What is believed of a point before any trial: a simulator's answer.
struct PriorBelief {
  double seconds = 1;   // of a step
  double log_odds = 0;  // of running at all
};

struct TunerOptions {
  uint64_t seed = 1;  // of the choice between points of which nothing is known
  // Without a prior, so many points are drawn before the model is asked.
  size_t first_draws = 6;
};

class Tuner {
 public:
  // `prior`: one for each point, or empty.
  Tuner(Space space, std::vector<PriorBelief> prior, const TunerOptions& options);

  // The next n points, indices into the space: neither tried nor asked for before; fewer at the
  // end. Trials that still run count as what the model expects of them ("kriging believer",
  // Ginsbourger et al. 2010), so points asked together differ.
  std::vector<size_t> ask(size_t n);
  // Of a point of this session or of an earlier one.
  void tell(size_t point, const TrialResult& result);

  const Space& space() const { return space_; }
  // The fastest trial so far.
  std::optional<size_t> best() const;
  // Expected log(seconds) of every point, by the surrogate on all that was told.
  std::vector<double> expected() const;

 private:
  struct Told {
    size_t point;
    TrialResult result;
  };
  struct Seen {
    std::vector<Point> points;
    std::vector<double> residuals;  // log(seconds) less the prior's
  };
  size_t next() const;
  size_t draw() const;
  double prior_of(size_t point) const;
  double odds_of(size_t point) const;
  Seen seen() const;
  Surrogate model() const;
  Feasibility feasibility() const;
  const Told* fastest() const;

  Space space_;
  Distances distances_;
  std::vector<PriorBelief> prior_;
  TunerOptions options_;
  Kernel kernel_;
  std::vector<Told> told_;
  std::vector<bool> taken_;  // told or running
  std::vector<size_t> running_;
};

}  // namespace tessera::plan
