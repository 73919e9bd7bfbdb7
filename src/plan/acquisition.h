// The acquisition function of a tuner: the expected improvement of a point, and the probability
// that it runs at all.
#pragma once

#include <vector>

#include "plan/surrogate.h"

namespace tessera::plan {

// Returns E max(best − y, 0) for a normally distributed y that is to be minimized (Jones, Schonlau
// & Welch 1998).
double expected_improvement(const Estimate& y, double best);

// The probability that a point runs, learned from the points that ran and those that failed (out of
// memory, too slow): a Gaussian process classifier with a logistic link, by Laplace's approximation
// (Rasmussen & Williams 2006, algorithms 3.1 and 3.2). Prior means are log-odds.
class Feasibility {
 public:
  Feasibility(const Distances& distances, size_t knobs, std::vector<Point> points,
              const std::vector<bool>& ran, const std::vector<double>& prior);
  double at(const Point& p, double prior) const;

 private:
  double covariance(const Point& a, const Point& b) const;

  const Distances* distances_;
  std::vector<double> length_;
  std::vector<Point> points_;
  std::vector<double> slope_;  // gradient of the log likelihood at the mode
  std::vector<double> width_;  // square root of its negative curvature there
  std::vector<double> root_;   // lower Cholesky factor of 1 + width · covariance · width
};

}  // namespace tessera::plan
