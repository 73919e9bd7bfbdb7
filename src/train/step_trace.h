// The timeline of one step: what each op took, against the machine's matrix rate.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/executor.h"
#include "train/trace.h"

namespace tessera {

class StepTrace {
 public:
  StepTrace(std::function<double()> now_s, bool wanted)
      : now_s_(std::move(now_s)), wanted_(wanted) {}

  bool wanted() const { return wanted_; }
  // What to give to the trainer; empty where no trace is wanted.
  std::function<void(const OpEvent&)> observer(const Program& program);
  // Chrome's format; shares are of `matrix_rate` (operations a second).
  std::string json(const std::string& title, double matrix_rate) const;

 private:
  std::function<double()> now_s_;
  bool wanted_;
  double last_s_ = 0;
  std::vector<TraceEvent> events_;
};

}  // namespace tessera
