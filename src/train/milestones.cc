#include "train/milestones.h"

#include <algorithm>

namespace tessera {

Milestones milestones_after(const RunConfig& config, int64_t step) {
  const auto every = [step](int64_t n) { return n > 0 && step > 0 && step % n == 0; };
  const std::vector<int64_t>& at = config.checkpoint.at_steps;
  const bool end = step >= config.schedule.steps;
  const bool stop = config.run.stop_after_steps > 0 && step >= config.run.stop_after_steps;
  return {.validate = end || every(config.metrics.validate_every_steps),
          .save = end || stop || every(config.checkpoint.every_steps) ||
                  std::find(at.begin(), at.end(), step) != at.end(),
          .leave = end || stop};
}

}  // namespace tessera
