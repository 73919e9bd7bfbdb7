// Gaussian process regression by Cholesky factorization (Rasmussen & Williams 2006, algorithm 2.1),
// and the fit of its kernel. An observation is a trial run, so n is small and O(n^3) is negligible
// compared with a trial.
#include "plan/surrogate.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace tessera::plan {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

Eigen::Index index(size_t n) { return static_cast<Eigen::Index>(n); }

// The prior of a kernel parameter: its logarithm is normally distributed.
struct Belief {
  double middle, spread;
  double log_density(double v) const {
    const double z = std::log(v / middle) / spread;
    return -0.5 * z * z;
  }
};
constexpr Belief kLength{0.5, 0.7};
constexpr Belief kVariance{0.04, 1.5};
constexpr Belief kNoise{4e-4, 1.0};

// Returns log p(kernel | y) up to a constant: the log marginal likelihood plus the log priors. The
// priors matter while there are few observations, which fit any length scale.
double log_posterior(const Distances& d, const Kernel& k, const std::vector<Point>& points,
                     const std::vector<double>& residuals) {
  double sum = Surrogate(d, k, points, residuals).log_likelihood();
  sum += kVariance.log_density(k.variance) + kNoise.log_density(k.noise);
  for (const double l : k.length) sum += kLength.log_density(l);
  return sum;
}

}  // namespace

Distances::Distances(const Space& space) {
  for (size_t k = 0; k < space.knobs.size(); ++k) {
    const int n = static_cast<int>(space.knobs[k].choices.size());
    std::vector<double> squares;
    for (int a = 0; a < n; ++a)
      for (int b = 0; b < n; ++b) {
        const double d = space.distance(k, a, b);
        squares.push_back(d * d);
      }
    table_.push_back(std::move(squares));
    choices_.push_back(n);
  }
}

double Distances::squared(const std::vector<double>& length, const Point& a, const Point& b) const {
  double sum = 0;
  for (size_t k = 0; k < table_.size(); ++k) {
    const size_t at = a[k] * choices_[k] + b[k];
    sum += table_[k][at] / (length[k] * length[k]);
  }
  return sum;
}

double matern(double r_squared) {
  const double z = std::sqrt(5 * r_squared);
  return (1 + z + z * z / 3) * std::exp(-z);
}

double Surrogate::covariance(const Point& a, const Point& b) const {
  return kernel_.offset + kernel_.variance * matern(distances_->squared(kernel_.length, a, b));
}

Surrogate::Surrogate(const Distances& distances, Kernel kernel, std::vector<Point> points,
                     const std::vector<double>& residuals)
    : distances_(&distances), kernel_(std::move(kernel)), points_(std::move(points)) {
  const Eigen::Index n = index(points_.size());
  CHECK(points_.size() == residuals.size(), "{} points, {} residuals", n, residuals.size());
  Matrix covariances(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j <= i; ++j)
      covariances(i, j) = covariance(points_[size_t(i)], points_[size_t(j)]);
    covariances(i, i) += kernel_.noise;
  }
  const Eigen::LLT<Matrix> cholesky(covariances);  // reads the lower half
  CHECK(n == 0 || cholesky.info() == Eigen::Success,
        "covariance of {} points is not positive definite", n);
  const Eigen::Map<const Vector> y(residuals.data(), n);
  const Vector weight = cholesky.solve(y);
  const Matrix root = cholesky.matrixL();
  root_.assign(root.data(), root.data() + root.size());
  weight_.assign(weight.data(), weight.data() + n);
  // log p(y) = -y^T K^-1 y / 2 - sum_i log L_ii - n/2 log 2 pi.
  log_likelihood_ = -0.5 * y.dot(weight) - root.diagonal().array().log().sum() -
                    0.5 * static_cast<double>(n) * std::log(2 * std::numbers::pi);
}

// mean = k^T K^-1 y, variance = k(p, p) - |L^-1 k|^2.
Estimate Surrogate::at(const Point& p) const {
  const Eigen::Index n = index(points_.size());
  Vector k(n);
  for (Eigen::Index i = 0; i < n; ++i) k(i) = covariance(p, points_[size_t(i)]);
  const double mean = k.dot(Eigen::Map<const Vector>(weight_.data(), n));
  Eigen::Map<const Matrix>(root_.data(), n, n).triangularView<Eigen::Lower>().solveInPlace(k);
  return {mean, std::max(0.0, kernel_.offset + kernel_.variance - k.squaredNorm())};
}

Kernel fit_kernel(const Distances& distances, const Kernel& start, const std::vector<Point>& points,
                  const std::vector<double>& residuals) {
  Kernel best = start;
  double height = log_posterior(distances, best, points, residuals);
  // Coordinate-wise ascent with two step sizes; each accepted step multiplies one parameter. It is
  // deterministic and needs no gradients.
  const size_t numbers = best.length.size() + 2;
  const auto number = [](Kernel& k, size_t i) -> double& {
    return i < k.length.size() ? k.length[i] : i == k.length.size() ? k.variance : k.noise;
  };
  for (const double factor : {2.0, 1.4}) {
    for (size_t i = 0; i < numbers; ++i) {
      for (const double by : {factor, 1 / factor}) {
        Kernel next = best;
        number(next, i) *= by;
        const double h = log_posterior(distances, next, points, residuals);
        if (h <= height) continue;
        best = next;
        height = h;
        break;
      }
    }
  }
  return best;
}

}  // namespace tessera::plan
