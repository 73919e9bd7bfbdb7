#include "config/run_section.h"

#include <algorithm>

#include "base/tree.h"

namespace tessera::config {
namespace {

bool is_name(const std::string& s) {
  return !s.empty() && s != "." && s != ".." &&
         std::none_of(s.begin(), s.end(),
                      [](unsigned char c) { return c == '/' || c < 0x20 || c == 0x7f; });
}

}  // namespace

void check(const RunSection& run, KeyErrors& errors) {
  if (!is_name(run.name))
    errors.add("run.name",
               "= {}, expected a name without '/' and control characters, other than '.' and '..': "
               "without run.directory the run writes into runs/NAME",
               to_json(Tree(run.name)));
}

void check(const CheckpointSection& checkpoint, int64_t steps, KeyErrors& errors) {
  for (const int64_t step : checkpoint.at_steps)
    if (step < 1 || step > steps) {
      errors.add("checkpoint.at_steps", "has {}, expected 1 to schedule.steps = {}", step, steps);
      break;
    }
  if (checkpoint.load == Load::kAll && checkpoint.from.empty())
    errors.add("checkpoint.load", "= all, but checkpoint.from names no checkpoint");
}

void check(const EvaluationSection& evaluation, KeyErrors& errors) {
  if (evaluation.every_steps > 0 && evaluation.tasks.empty())
    errors.add("evaluation.every_steps", "= {}, but evaluation.tasks names no task file",
               evaluation.every_steps);
}

void check(const MetricsSection& metrics, KeyErrors& errors) {
  if (!metrics.prometheus.empty() && !metrics.prometheus.ends_with(".prom"))
    errors.add("metrics.prometheus",
               "= {}, expected a file name that ends with .prom: the textfile collector of "
               "node_exporter reads no other file",
               metrics.prometheus);
}

}  // namespace tessera::config
