// A Gaussian process over the points of a space (Rasmussen & Williams 2006, chapter 2): what is
// believed of a function after a few looks at it.
//
//   y(p) = prior(p) + offset + f(p) + noise,   f ~ GP(0, k),   offset ~ N(0, offset variance)
//   k(p, q) = variance · (1 + √5 r + 5/3 r²) exp(−√5 r),   r² = Σ (distance_i(p, q) / length_i)²
//
// (Matérn 5/2). Residuals are y − prior: the caller adds the prior again.
#pragma once

#include <vector>

#include "plan/tune_space.h"

namespace tessera::plan {

struct Kernel {
  double variance = 0.04;      // of f, in squares of the unit of y
  std::vector<double> length;  // of each knob, in its whole range
  double offset = 1;           // variance of what the prior is wrong by everywhere
  double noise = 1e-4;         // variance of one observation
};

struct Estimate {
  double mean = 0, variance = 0;
};

// The squared distances of every two choices of every knob, looked up.
class Distances {
 public:
  explicit Distances(const Space& space);
  // r² with one length for each knob.
  double squared(const std::vector<double>& length, const Point& a, const Point& b) const;

 private:
  std::vector<std::vector<double>> table_;  // of each knob, choices × choices
  std::vector<size_t> choices_;
};

double matern(double r_squared);  // 1 at 0

class Surrogate {
 public:
  Surrogate(const Distances& distances, Kernel kernel, std::vector<Point> points,
            const std::vector<double>& residuals);
  // Of y − prior without noise.
  Estimate at(const Point& p) const;
  // Of the residuals, natural logarithm.
  double log_likelihood() const { return log_likelihood_; }
  const Kernel& kernel() const { return kernel_; }

 private:
  double covariance(const Point& a, const Point& b) const;

  const Distances* distances_;
  Kernel kernel_;
  std::vector<Point> points_;
  std::vector<double> root_;    // lower Cholesky factor of the covariance, column-major
  std::vector<double> weight_;  // covariance⁻¹ residuals
  double log_likelihood_ = 0;
};

// The most probable kernel: likelihood times a broad prior (lengths about half a range, 20 % of
// departure, 2 % of noise), climbed coordinate by coordinate from `start`.
Kernel fit_kernel(const Distances& distances, const Kernel& start, const std::vector<Point>& points,
                  const std::vector<double>& residuals);

}  // namespace tessera::plan
