// Records the timeline of one step on all ranks: the time of each op, and its fraction of the
// machine's matrix rate.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "comm/world.h"
#include "runtime/executor.h"
#include "train/trace.h"

namespace tessera::train {

// Writes the document to DIRECTORY/trace.json, or to trace-STEP.json if trace.json is a user's
// file. Returns the path. Throws Error if both are, or if writing fails.
Path write_trace(const Path& directory, int64_t step, const std::string& json);

class StepTrace {
 public:
  // `now_s` must be the clock that the executor uses. `wanted`: the step is to be traced.
  StepTrace(std::function<double()> now_s, bool wanted)
      : now_s_(std::move(now_s)), wanted_(wanted) {}

  bool wanted() const { return wanted_; }
  // Returns the observer for Trainer::run_step(); empty if the step is not traced.
  std::function<void(const runtime::OpEvent&)> observer(const Program& program);
  // Returns the trace in Chrome's format on rank 0, and an empty string on the others. Each rank is
  // a process of the trace. The clocks of the ranks are aligned at a common barrier. `matrix_rate`
  // is in operations per second; that of rank 0 is used. Collective.
  std::string json(comm::World& world, const std::string& title, double matrix_rate);

 private:
  std::function<double()> now_s_;
  bool wanted_;
  std::vector<TraceEvent> events_;
};

}  // namespace tessera::train
