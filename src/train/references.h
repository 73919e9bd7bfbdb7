// The log-probabilities of answers under the reference model of a preference objective. They are
// computed once, before the first step, so that no second copy of the model is held.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "comm/world.h"
#include "config/run_config.h"
#include "data/preferences.h"
#include "train/trainer.h"

namespace tessera::train {

// RUN/references-DATA.bin, where DATA is the fingerprint of the pairs, has one line of JSON and
// then, per pair in the order of the data, two f64 and an XXH3-64 checksum of its number and these:
//   {"version":2,"pairs":…,"data":"…","weights":"…"}
// "weights" identifies the reference model. A pass that was interrupted continues where the file
// ends.
struct ReferencePass {
  Path run;                           // the run directory
  Path checkpoint;                    // the source of the weights; empty: initial weights
  bool has_reference_weights = true;  // false: the run resumes, so its weights have been trained
  std::function<void(const std::string&)> say;    // a line for the log
  std::function<void(const std::string&)> doing;  // reports an activity to the monitor
};

// Gives each dataset the log-probabilities under the reference model, from its file of the run
// or by a pass over the data. Collective; the trainer has its weights, and no step has been
// prepared. Throws Error if the run resumes without a file, unless the reference is the weights
// without adapters, which a run does not change; and if a log-probability is not finite.
void set_references(const config::RunConfig& config, Trainer& trainer,
                    std::span<data::PreferenceData* const> sets, comm::World& world,
                    const ReferencePass& pass);

// Returns the log-probabilities of the pairs that the run directory has, two per pair, or none.
std::vector<double> stored_references(const Path& run, const data::PreferenceData& data);

// Returns the log-probabilities among sums of answers [pairs, kAnswersPerRow, kAnswerColumns].
std::vector<double> log_probs_of(std::span<const double> sums);

}  // namespace tessera::train
