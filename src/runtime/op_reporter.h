// Reports the ops of a run to the hooks of the machine and to the observer of the run.
#pragma once

#include "runtime/executor.h"

namespace tessera {

class OpReporter {
 public:
  // All of them outlive this.
  OpReporter(const Executor& executor, const RunHooks& hooks)
      : executor_(executor), hooks_(hooks) {}

  void begin_run(const Observer& observe) { observe_ = &observe; }
  void end_run() { observe_ = nullptr; }
  bool running() const { return observe_ != nullptr; }
  bool observed() const { return running() && *observe_; }

  // Returns the time for finished(); 0 if the run has no observer.
  double now_s() const { return observed() ? hooks_.time_s() : 0; }
  void started(CallId c, const PreparedOp& op, bool waits) const;
  void finished(CallId c, const BoundOp& op, double start_s) const;

 private:
  const Executor& executor_;
  const RunHooks& hooks_;
  const Observer* observe_ = nullptr;
};

}  // namespace tessera
