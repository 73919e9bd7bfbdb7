// The progress of `tessera eval`: a status line with the share of the current input that is done.
#pragma once

#include <cstdint>

#include "cli/status_line.h"

namespace tessera::cli {

// Shows the progress of one input after another.
class EvalProgress {
 public:
  // Shows `done` of `all` items (samples, continuations, answers, bytes; all = 0: unknown) if a
  // line is due. Erases the line when all are done. A decrease of `done` starts a new input.
  void show(int64_t done, int64_t all);

 private:
  StatusLine status_;
  int64_t first_ = 0, last_ = 0;  // items done at the first and the last call for this input
  double began_s_ = 0;            // time of the first call
};

}  // namespace tessera::cli
