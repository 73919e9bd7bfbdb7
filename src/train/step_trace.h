// The timeline of one step on all ranks: what each op took, against the machine's matrix rate.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "comm/world.h"
#include "runtime/executor.h"
#include "train/trace.h"

namespace tessera::train {

// Writes the document to DIRECTORY/trace.json, or to trace-STEP.json if a user has a file of that
// name. Returns the path. Throws Error.
Path write_trace(const Path& directory, int64_t step, const std::string& json);

class StepTrace {
 public:
  // `now_s` is the clock of the executor too.
  StepTrace(std::function<double()> now_s, bool wanted)
      : now_s_(std::move(now_s)), wanted_(wanted) {}

  bool wanted() const { return wanted_; }
  // What to give to the trainer; empty where no trace is wanted.
  std::function<void(const runtime::OpEvent&)> observer(const Program& program);
  // Chrome's format, on rank 0; the others return nothing. A process is a rank. The ranks' clocks
  // are laid on each other where all of them come to the same barrier. Collective; shares are of
  // rank 0's `matrix_rate` (operations a second).
  std::string json(comm::World& world, const std::string& title, double matrix_rate);

 private:
  std::function<double()> now_s_;
  bool wanted_;
  std::vector<TraceEvent> events_;
};

}  // namespace tessera::train
