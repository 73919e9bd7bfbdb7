// The training loss of each dataset of a blend, measured at some steps.
//
// The loss of a step is a mean over samples of all datasets. To divide it, the forward pass runs
// once more before the step, on the same batch and weights, sorted by dataset. Without dropout, the
// token-weighted mean of these losses is the loss of the step, up to rounding, in every layout.
#pragma once

#include <string>
#include <vector>

#include "train/metrics.h"
#include "train/trainer.h"
#include "train/training_input.h"

namespace tessera::train {

class SourceLosses {
 public:
  SourceLosses(const config::RunConfig& config, TrainingInput& input);

  // True if the losses are measured at this step: every metrics.source_loss_every_steps steps, if
  // there is more than one dataset.
  bool due(int64_t step) const;
  // Measures the prepared step. A dataset without samples in it is left out. Collective.
  std::vector<SourceMetrics> measure(Trainer& trainer, int64_t step) const;

 private:
  int64_t every_ = 0;  // 0: never
  TrainingInput& input_;
  std::vector<std::string> names_;  // per source
  std::vector<int> source_of_;      // per dataset of the input: its source
};

// Returns the names of datasets for metrics: the last parts of their prefixes, or the whole
// prefixes of those whose last parts are equal.
std::vector<std::string> source_names(const std::vector<std::string>& prefixes);

}  // namespace tessera::train
