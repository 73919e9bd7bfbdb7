// The end of a run by run.time_limit.
#pragma once

#include <algorithm>
#include <optional>

#include "config/run_section.h"

namespace tessera::train {

class TimeLimit {
 public:
  // `started_s`: start of the process on the clock of is_over().
  TimeLimit(const config::RunSection& run, double started_s)
      : limit_s_(config::seconds_of(run.time_limit)), started_s_(started_s) {}

  void add_step(double seconds) {
    last_step_s_ = seconds;
    has_steps_ = true;
  }

  // Returns true if a further step, as long as the last one, and a save would exceed the limit.
  // This process does at least one step, so that a run with a limit that is too short advances at
  // each start.
  bool is_over(double now_s, double save_s) const {
    return limit_s_ && has_steps_ && now_s - started_s_ + last_step_s_ + save_s >= *limit_s_;
  }

 private:
  std::optional<double> limit_s_;
  double started_s_;
  double last_step_s_ = 0;
  bool has_steps_ = false;
};

}  // namespace tessera::train
