// Bayesian optimization over a finite space (tune.h). The model is log(seconds) = log(prior) +
// Gaussian process, so the simulator's prediction is corrected where trials contradict it, and
// relative errors count equally at all speeds. The score of a point is its expected improvement
// times the probability that it runs; every untried point is scored.
#include "plan/tune.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/philox.h"

namespace tessera::plan {
namespace {

constexpr EnumArray<Outcome, const char*> kOutcomes = {"ran", "out of memory", "time-out",
                                                       "failed"};

}  // namespace

const char* name_of(Outcome outcome) { return kOutcomes[outcome]; }

Outcome parse_outcome(const std::string& name) {
  if (const auto outcome = enumerator_named(kOutcomes, name)) return *outcome;
  throw Error("unknown trial outcome '{}'; expected ran | out of memory | time-out | failed.",
              name);
}

Tuner::Tuner(Space space, std::vector<PriorBelief> prior, const TunerOptions& options)
    : space_(std::move(space)),
      distances_(space_),
      prior_(std::move(prior)),
      options_(options),
      taken_(space_.points.size(), false) {
  CHECK(prior_.empty() || prior_.size() == space_.points.size(),
        "{} priors, expected one per point or none", prior_.size());
  kernel_.length.assign(space_.knobs.size(), 0.5);
}

double Tuner::prior_of(size_t point) const {
  return prior_.empty() ? 0 : std::log(prior_[point].seconds);
}

// Without a prior, a point is assumed to run with log-odds 1 (73 %).
double Tuner::odds_of(size_t point) const { return prior_.empty() ? 1 : prior_[point].log_odds; }

void Tuner::tell(size_t point, const TrialResult& result) {
  CHECK(point < space_.points.size(), "point {} is outside [0, {})", point, space_.points.size());
  told_.push_back({point, result});
  taken_[point] = true;
  std::erase(running_, point);
}

const Tuner::Observation* Tuner::fastest() const {
  const Observation* best = nullptr;
  for (const Observation& t : told_)
    if (t.result.outcome == Outcome::kRan &&
        (best == nullptr || t.result.seconds < best->result.seconds))
      best = &t;
  return best;
}

std::optional<size_t> Tuner::best() const {
  const Observation* best = fastest();
  return best == nullptr ? std::nullopt : std::optional(best->point);
}

Tuner::Seen Tuner::seen() const {
  Seen s;
  for (const Observation& t : told_) {
    if (t.result.outcome != Outcome::kRan) continue;
    s.points.push_back(space_.points[t.point]);
    s.residuals.push_back(std::log(t.result.seconds) - prior_of(t.point));
  }
  return s;
}

// Returns the surrogate of the observations plus the expected results of running trials.
Surrogate Tuner::model() const {
  Seen s = seen();
  Surrogate sure(distances_, kernel_, s.points, s.residuals);
  if (running_.empty()) return sure;
  for (const size_t point : running_) {
    s.points.push_back(space_.points[point]);
    s.residuals.push_back(sure.at(space_.points[point]).mean);
  }
  return {distances_, kernel_, std::move(s.points), s.residuals};
}

Feasibility Tuner::feasibility() const {
  std::vector<Point> points;
  std::vector<bool> ran;
  std::vector<double> prior;
  for (const Observation& t : told_) {
    points.push_back(space_.points[t.point]);
    ran.push_back(t.result.outcome == Outcome::kRan);
    prior.push_back(odds_of(t.point));
  }
  return {distances_, space_.knobs.size(), std::move(points), ran, prior};
}

// Returns a random untried point. It depends on the seed and on the set of untried points, not on
// the order of calls.
size_t Tuner::draw() const {
  const Philox random{hash_name("tune", options_.seed)};
  size_t best = space_.points.size();
  for (size_t i = 0; i < space_.points.size(); ++i)
    if (!taken_[i] && (best == space_.points.size() || random.word(i) < random.word(best)))
      best = i;
  return best;
}

size_t Tuner::next() const {
  if (prior_.empty() && told_.size() + running_.size() < options_.first_draws) return draw();
  const Surrogate surrogate = model();
  const Feasibility runs = feasibility();
  const Observation* const best = fastest();
  size_t chosen = space_.points.size();
  double most = 0;
  for (size_t i = 0; i < space_.points.size(); ++i) {
    if (taken_[i]) continue;
    const Point& p = space_.points[i];
    Estimate y = surrogate.at(p);
    y.mean += prior_of(i);
    // Before any trial has succeeded there is no best time to improve on: prefers fast points that
    // are likely to run.
    const double gain = best != nullptr ? expected_improvement(y, std::log(best->result.seconds))
                                        : std::exp(-y.mean);
    const double score = gain * runs.at(p, odds_of(i));
    if (chosen != space_.points.size() && score <= most) continue;
    chosen = i;
    most = score;
  }
  return chosen;
}

// Points that are returned together count as observed at their expected value, so the next one
// differs from them.
std::vector<size_t> Tuner::ask(size_t n) {
  const Seen s = seen();
  if (s.points.size() >= 2) kernel_ = fit_kernel(distances_, kernel_, s.points, s.residuals);
  std::vector<size_t> asked;
  while (asked.size() < n) {
    const size_t point = next();
    if (point == space_.points.size()) break;
    taken_[point] = true;
    running_.push_back(point);
    asked.push_back(point);
  }
  return asked;
}

std::vector<double> Tuner::expected() const {
  const Surrogate surrogate = model();
  std::vector<double> out;
  for (size_t i = 0; i < space_.points.size(); ++i)
    out.push_back(prior_of(i) + surrogate.at(space_.points[i]).mean);
  return out;
}

}  // namespace tessera::plan
