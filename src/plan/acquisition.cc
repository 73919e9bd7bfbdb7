// Expected improvement, and the probability that a trial runs. The latter is a Gaussian process
// classifier with a logistic link. Its posterior is not normal; Laplace's approximation replaces it
// by a normal with the same mode and the same curvature there (Rasmussen & Williams 2006,
// algorithms 3.1 and 3.2).
#include "plan/acquisition.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <cmath>
#include <numbers>

namespace tessera::plan {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

// With a variance of 4, the log-odds of distant points differ by about 2. The length scale is half
// a knob's range.
constexpr double kVariance = 4, kLength = 0.5;
constexpr int kNewtonSteps = 25;  // the log posterior is concave: a few are enough

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

// E max(best - y, 0) = gain Φ(z) + deviation φ(z) with z = gain / deviation.
double expected_improvement(const Estimate& y, double best) {
  const double deviation = std::sqrt(y.variance), gain = best - y.mean;
  if (deviation <= 0) return std::max(gain, 0.0);
  const double z = gain / deviation;
  const double density = std::exp(-0.5 * z * z) / std::sqrt(2 * std::numbers::pi);
  return gain * 0.5 * std::erfc(-z / std::numbers::sqrt2) + deviation * density;
}

double Feasibility::covariance(const Point& a, const Point& b) const {
  return kVariance * matern(distances_->squared(length_, a, b));
}

Feasibility::Feasibility(const Distances& distances, size_t knobs, std::vector<Point> points,
                         const std::vector<bool>& ran, const std::vector<double>& prior)
    : distances_(&distances), length_(knobs, kLength), points_(std::move(points)) {
  const auto n = static_cast<Eigen::Index>(points_.size());
  Matrix k(n, n);
  Vector target(n), departure = Vector::Zero(n), slope(n), width(n), mean(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    target(i) = ran[size_t(i)] ? 1 : 0;
    mean(i) = prior[size_t(i)];
    for (Eigen::Index j = 0; j < n; ++j)
      k(i, j) = covariance(points_[size_t(i)], points_[size_t(j)]);
  }
  Eigen::LLT<Matrix> cholesky;
  // Newton's method for the mode. B = 1 + W^1/2 K W^1/2 has eigenvalues of at least 1, so its
  // Cholesky factorization is stable for any covariance K.
  for (int step = 0; step < kNewtonSteps; ++step) {
    const Vector odds = (mean + departure).unaryExpr(&logistic);
    slope = target - odds;
    width = (odds.array() * (1 - odds.array())).sqrt();
    cholesky.compute(Matrix::Identity(n, n) + width.asDiagonal() * k * width.asDiagonal());
    const Vector b = width.cwiseAbs2().cwiseProduct(departure) + slope;
    const Vector inner = cholesky.solve(width.cwiseProduct(k * b));
    departure = k * (b - width.cwiseProduct(inner));
  }
  const Matrix root = cholesky.matrixL();
  root_.assign(root.data(), root.data() + root.size());
  slope_.assign(slope.data(), slope.data() + n);
  width_.assign(width.data(), width.data() + n);
}

double Feasibility::at(const Point& p, double prior) const {
  const auto n = static_cast<Eigen::Index>(points_.size());
  Vector k(n);
  for (Eigen::Index i = 0; i < n; ++i) k(i) = covariance(p, points_[size_t(i)]);
  const double mean = prior + k.dot(Eigen::Map<const Vector>(slope_.data(), n));
  k.array() *= Eigen::Map<const Vector>(width_.data(), n).array();
  Eigen::Map<const Matrix>(root_.data(), n, n).triangularView<Eigen::Lower>().solveInPlace(k);
  // Predictive variance k(p,p) - |L^-1 W^1/2 k|^2 with the factor L of B.
  const double variance = std::max(0.0, kVariance - k.squaredNorm());
  // The logistic function averaged over a normal distribution (MacKay 1992).
  return logistic(mean / std::sqrt(1 + std::numbers::pi * variance / 8));
}

}  // namespace tessera::plan
