// Robust statistics of the training loss: medians, which single outliers do not move (divergence.h
// has the formulas).
#include "train/divergence.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/median.h"
#include "base/tree.h"

namespace tessera::train {
namespace {

constexpr size_t kHistory = 50, kKnown = 20;
constexpr double kNormal = 1.4826;    // standard deviation of normal noise over its median
constexpr double kLeastNoise = 0.02;  // as a fraction of the median
constexpr const char* kFirstLoss = "first_loss";

double median_of(const std::deque<double>& x) {
  return median(std::vector<double>(x.begin(), x.end()));
}

}  // namespace

void DivergenceGuard::look_for_spike(double loss) {
  spiked_ = false;
  if (cooldown_ > 0) --cooldown_;
  if (rule_.spike <= 0 || cooldown_ > 0 || history_.size() < kKnown) return;
  median_before_ = median_of(history_);
  std::vector<double> distances;
  for (const double x : history_) distances.push_back(std::abs(x - median_before_));
  // When the losses hardly vary, the floor keeps ordinary steps from counting as spikes.
  const double noise = std::max(kNormal * median(distances), kLeastNoise * median_before_);
  spiked_ = loss - median_before_ > rule_.spike * noise;
  if (spiked_) cooldown_ = rule_.steps;
}

void DivergenceGuard::add(double loss) {
  CHECK(std::isfinite(loss), "a loss of {} is not judged here", loss);
  look_for_spike(loss);
  history_.push_back(loss);
  if (history_.size() > kHistory) history_.pop_front();
  if (!first_) {
    first_ = loss;
    return;
  }
  recent_.push_back(loss);
  if (std::ssize(recent_) > rule_.steps) recent_.pop_front();
}

double DivergenceGuard::limit() const {
  return std::max(rule_.ratio * first_loss(), uniform_loss_);
}

double DivergenceGuard::recent_median() const { return recent_.empty() ? 0 : median_of(recent_); }

bool DivergenceGuard::diverged_at_end() const { return is_high() && recent_median() > limit(); }

bool DivergenceGuard::diverged() const {
  return std::ssize(recent_) == rule_.steps && diverged_at_end();
}

void DivergenceGuard::save(Tree& state) const {
  if (first_) state.set(kFirstLoss, Tree(*first_));
}

void DivergenceGuard::restore(const Tree& state) {
  first_.reset();
  if (state.as_members() == nullptr) return;
  const Tree* found = state.find(kFirstLoss);
  if (found == nullptr) return;
  first_ = number_in(*found);
}

}  // namespace tessera::train
