// What is due after a step, as a pure function of the run file.
#pragma once

#include <cstdint>

#include "train/run_config.h"

namespace tessera {

struct Milestones {
  bool validate = false;
  bool save = false;
  bool leave = false;  // the run ends, or stops here to be continued
};

// After `step` steps (0: before the first, which only a run of no steps leaves). Validation: every
// metrics.validate_every_steps and at the end. Saving: every checkpoint.every_steps, at
// checkpoint.at_steps, at run.stop_after_steps, and at the end. Where a signal asks to stop, the
// caller saves and leaves besides.
Milestones milestones_after(const RunConfig& config, int64_t step);

}  // namespace tessera
