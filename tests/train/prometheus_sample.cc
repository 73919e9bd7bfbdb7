// Prints a file for Prometheus with all metrics and with labels that need escapes:
// prometheus_parse_test.py reads it with Prometheus' own tools.
#include <cmath>
#include <cstdio>

#include "metric_scalars.h"
#include "train/prometheus.h"

int main() {
  using namespace tessera::train;
  PrometheusFile file("unused.prom", "a\\b \"c\"\nd");
  StepMetrics step = full_step();
  step.grad_norm = std::nan("");
  step.loss = INFINITY;
  file.set(7, 1.7e9, scalars_of(step));
  file.set(8, 1.7e9, scalars_of(full_validation()));
  file.set(8, 1.7e9, scalars_of(full_task()));
  std::fputs(file.text().c_str(), stdout);
  return 0;
}
