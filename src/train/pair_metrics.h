// The loss of pairs of answers and the figures of metrics.jsonl, from the report of a step or from
// the sums of a set of pairs.
#pragma once

#include <span>
#include <vector>

#include "config/objective_section.h"
#include "data/preferences.h"
#include "kernels/preference_pair.h"
#include "train/metrics.h"

namespace tessera::train {

// Returns the figures of a report (ir/state.h) of an objective that compares answers.
PreferenceMetrics preference_of(const config::ObjectiveSection& objective, const double* report);

// Returns the losses of the first pairs of a set, those of `sums` [pairs, kAnswersPerRow,
// kAnswerColumns]. What the loss reads from the batch of a step, z of kto and the number of
// tokens of orpo, is computed over these pairs together.
std::vector<kernels::PairLoss> losses_of_pairs(const config::ObjectiveSection& objective,
                                               const data::PreferenceData& data,
                                               std::span<const double> sums);

struct PairsResult {
  double loss = 0;  // mean over the pairs
  int64_t pairs = 0;
  PreferenceMetrics figures;
};
PairsResult result_of_pairs(const config::ObjectiveSection& objective,
                            std::span<const kernels::PairLoss> losses);

}  // namespace tessera::train
