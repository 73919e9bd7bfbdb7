// Ends a run whose validation loss no longer falls (schedule.stop).
#pragma once

#include <limits>
#include <span>
#include <string>

#include "comm/world.h"
#include "config/schedule.h"
#include "train/metrics.h"

namespace tessera::train {

class EarlyStop {
 public:
  // `section` names the dataset if it has a patience. `before`: the validations up to the step at
  // which the run resumes, from metrics.jsonl, on rank 0.
  EarlyStop(const config::EarlyStopSection& section, std::span<const ValidationLoss> before);

  void add(const ValidationLoss& loss);

  // Returns true if the run ends, as rank 0 decides. Collective.
  bool is_over(comm::World& world) const;
  // Returns the reason on rank 0.
  std::string reason() const;

 private:
  config::EarlyStopSection section_;
  double best_ = std::numeric_limits<double>::infinity();
  int64_t best_step_ = 0;
  int64_t since_ = 0;  // validations since the best one
};

// Sets schedule.stop.metric to the name of the only validation dataset if it is empty. Throws Error
// if there is a patience but no such dataset, or no validation during the run.
void resolve_early_stop(config::EarlyStopSection& section, std::span<const std::string> datasets,
                        int64_t validate_every_steps);

}  // namespace tessera::train
