// Counts the validations since the one with the smallest loss.
#include "train/early_stop.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/count.h"
#include "base/error.h"

namespace tessera::train {

EarlyStop::EarlyStop(const config::EarlyStopSection& section,
                     std::span<const ValidationLoss> before)
    : section_(section) {
  for (const ValidationLoss& loss : before) add(loss);
}

// A loss that is not a number is not smaller.
void EarlyStop::add(const ValidationLoss& loss) {
  if (loss.name != section_.metric) return;
  ++since_;
  if (!(loss.loss < best_)) return;
  best_ = loss.loss;
  best_step_ = loss.step;
  since_ = 0;
}

bool EarlyStop::is_over(comm::World& world) const {
  if (section_.patience == 0) return false;
  double over = world.rank() == 0 && since_ >= section_.patience ? 1 : 0;
  world.all_reduce({&over, 1}, comm::Reduction::kMax);
  return over > 0;
}

std::string EarlyStop::reason() const {
  return fmt::format(
      "stopped by schedule.stop: the loss on {} was smallest at step {} ({:.4f}), {} validation{} "
      "ago",
      section_.metric, format_count(best_step_), best_, since_, since_ == 1 ? "" : "s");
}

void resolve_early_stop(config::EarlyStopSection& section, std::span<const std::string> datasets,
                        int64_t validate_every_steps) {
  if (section.patience == 0) return;
  if (validate_every_steps == 0)
    throw Error(
        "schedule.stop.patience = {}, but metrics.validate_every_steps = 0, so there is no "
        "validation during the run. Set the steps between validations.",
        section.patience);
  if (section.metric.empty() && datasets.size() == 1) section.metric = datasets[0];
  if (std::find(datasets.begin(), datasets.end(), section.metric) == datasets.end())
    throw Error("schedule.stop.metric = '{}', expected a dataset of data.validation. {}",
                section.metric,
                datasets.empty() ? std::string("It names none.")
                                 : fmt::format("It has {}.", fmt::join(datasets, ", ")));
}

}  // namespace tessera::train
