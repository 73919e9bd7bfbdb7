// The log-probabilities of answers under the reference model of a preference objective. They are
// computed once, before the first step, so that no second copy of the model is held.
#pragma once

#include <functional>
#include <string>

#include "base/file.h"
#include "comm/world.h"
#include "config/run_config.h"
#include "data/preferences.h"
#include "train/trainer.h"

namespace tessera::train {

// RUN/references-DATA.bin, where DATA is the fingerprint of the pairs, has one line of JSON and
// then two f64 per pair, in the order of the data:
//   {"version":1,"pairs":…,"data":"…","weights":"…"}
// "weights" identifies the reference model. A pass that was interrupted continues where the file
// ends.
struct ReferencePass {
  Path run;                           // the run directory
  Path checkpoint;                    // that the weights come from; empty: they are initial weights
  bool has_reference_weights = true;  // false: the run resumes, so its weights have been trained
  std::function<void(const std::string&)> say;    // a line for the log
  std::function<void(const std::string&)> doing;  // reports an activity to the monitor
};

// Gives `data` the log-probabilities under the reference model, from the file of the run or by a
// pass over the data. Collective; the trainer has its weights, and no step has been prepared.
// Throws Error if the run resumes without its file, unless the reference are the weights without
// adapters, which a run does not change; and if a log-probability is not finite.
void set_references(const config::RunConfig& config, Trainer& trainer, data::PreferenceData& data,
                    comm::World& world, const ReferencePass& pass);

}  // namespace tessera::train
