// Computes the derived figures of a prediction: groups of op times, utilization, cost.
#include "plan/prediction.h"

#include "base/real.h"
#include "ir/rule.h"

namespace tessera::plan {
namespace {

// Sums the times of the ops of a group. OpRule::time gives the group of an op, so a new op needs no
// change here.
double sum_of(const TimeParts& t, TimeGroup group) {
  double s = 0;
  for (const OpKind k : Enumerators<OpKind>())
    if (rule_of(k).time == group) s += t.compute[k];
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

// MFU and HFU are operations per second and device, divided by the device's specified rate.
double Prediction::share(double flops) const {
  return flops / real_product(step_s, devices, peak_flops_per_s);
}

double Prediction::usd_per_million_tokens() const {
  const double usd_per_s = real_product(usd_per_device_hour / 3600, devices);
  return usd_per_s / tokens_per_s() * 1e6;
}

}  // namespace tessera::plan
