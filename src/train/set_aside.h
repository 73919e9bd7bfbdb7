// Sets aside what a run recorded after the step from which it restarts. Nothing is deleted.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"

namespace tessera {

struct SetAside {
  Path run;                // directory
  int64_t step = 0;        // the new start
  bool keeps_line = true;  // the start is a checkpoint of this run, so what is up to `step` stays
  double wall_s = 0;       // seconds since 1970, for the name
};

// Moves checkpoints of later steps and TensorBoard's files into
// RUN/set_aside/<UTC time>-after-step-<step>/, and copies the lines of metrics.jsonl after `step`,
// which RunRecord then cuts. Event files hold earlier steps too, so they are copied if those stay.
// If checkpoints/ is on another disk, its folders go to checkpoints/set_aside/ there. Returns a
// line that reports what was moved where; empty if there was nothing. Throws Error.
std::string set_aside(const SetAside& request);

}  // namespace tessera
