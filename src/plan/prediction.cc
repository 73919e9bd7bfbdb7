// Derived figures of a prediction: groups of op times, utilization, cost.
#include "plan/prediction.h"

#include "ir/rule.h"

namespace tessera {
namespace {

double sum_of(const TimeParts& t, TimeGroup group) {
  double s = 0;
  for (int k = 0; k < kOpKinds; ++k)
    if (rule_of(static_cast<OpKind>(k)).time == group) s += t.compute[k];
  return s;
}

}  // namespace

double TimeParts::matrix() const { return sum_of(*this, TimeGroup::kMatrix); }
double TimeParts::attention() const { return sum_of(*this, TimeGroup::kAttention); }

double TimeParts::computing() const {
  double s = 0;
  for (const double x : compute) s += x;
  return s;
}

double TimeParts::exposed_s() const {
  double s = 0;
  for (const double x : exposed) s += x;
  return s;
}

double TimeParts::sum() const {
  return computing() + exposed_s() + recomputation + optimizer + bubble + host;
}

void TimeParts::operator*=(double share) {
  with(*this, [&](double& mine, double) { mine *= share; });
}

// MFU and HFU: operations per second and device, divided by the device's specified rate.
double Prediction::share(double flops) const {
  return flops / (step_s * static_cast<double>(devices) * peak_flops_per_s);
}

double Prediction::usd_per_million_tokens() const {
  const double usd_per_s = usd_per_device_hour / 3600 * static_cast<double>(devices);
  return usd_per_s / tokens_per_s() * 1e6;
}

}  // namespace tessera
