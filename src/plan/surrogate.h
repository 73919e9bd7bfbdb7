// A Gaussian process over the points of a space (Rasmussen & Williams 2006, chapter 2): the
// estimate of a function after a few observations.
//
//   y(p) = prior(p) + offset + f(p) + noise,   f ~ GP(0, k),   offset ~ N(0, offset variance)
//   k(p, q) = variance · (1 + √5 r + 5/3 r²) exp(−√5 r),   r² = Σ (distance_i(p, q) / length_i)²
//
// k is the Matérn 5/2 kernel. Residuals are y − prior: the caller adds the prior to estimates.
#pragma once

#include <vector>

#include "plan/tune_space.h"

namespace tessera::plan {

struct Kernel {
  double variance = 0.04;      // variance of f, in the squared unit of y
  std::vector<double> length;  // length scale of each knob; 1 is its whole range
  double offset = 1;           // variance of the prior's constant error
  double noise = 1e-4;         // noise variance of one observation
};

struct Estimate {
  double mean = 0, variance = 0;
};

// Table of the squared distances between every two choices of every knob.
class Distances {
 public:
  explicit Distances(const Space& space);
  // Returns r² with one length scale per knob.
  double squared(const std::vector<double>& length, const Point& a, const Point& b) const;

 private:
  std::vector<std::vector<double>> table_;  // by knob: choices × choices
  std::vector<size_t> choices_;
};

double matern(double r_squared);  // 1 at 0

class Surrogate {
 public:
  Surrogate(const Distances& distances, Kernel kernel, std::vector<Point> points,
            const std::vector<double>& residuals);
  // Returns the estimate of y − prior, without noise.
  Estimate at(const Point& p) const;
  // Returns the natural logarithm of the marginal likelihood of the residuals.
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

// Returns the kernel with the maximum posterior: marginal likelihood times a broad prior (length
// scales about half a range, standard deviations of 20 % for f and 2 % for noise), found by
// coordinate-wise ascent from `start`.
Kernel fit_kernel(const Distances& distances, const Kernel& start, const std::vector<Point>& points,
                  const std::vector<double>& residuals);

}  // namespace tessera::plan
