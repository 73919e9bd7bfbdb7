// The range of every number in a run file that arithmetic depends on.
#pragma once

#include "train/run_config.h"

namespace tessera {

// Throws Error, with the place, for a number outside its range: one that f32 arithmetic cannot use,
// or that no run needs. Rules between several keys are in validate(), those of a model's sizes and
// rotary numbers in model/check_model.h.
void check_ranges(const RunConfig& config);

}  // namespace tessera
