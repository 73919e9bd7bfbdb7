// Reports of a run: ops, waits and communication times.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/program.h"
#include "runtime/binding.h"

namespace tessera::runtime {

class Executor;
struct PreparedOp;

// An op that has just run, for traces and for the search for the first non-finite value.
struct OpEvent {
  const Call& call;
  const Segment& segment;
  const BoundOp& op;
  double start_s;  // start time on the clock of the hooks
  const Executor& executor;

  // Returns a view of the operand that the host can read until the next call.
  TensorView host(const TensorView& operand) const;
  // Returns the index of the operand's first element that is not finite, or -1 if all are finite.
  // Searches on the device that stores the operand. Supports f32, bf16 and f16.
  int64_t first_non_finite(const TensorView& operand) const;
};
using Observer = std::function<void(const OpEvent&)>;

// An op of the compute queue that starts, or an op of any queue that this rank has waited for
// longer than kLongWait.
struct OpStart {
  const Call& call;
  const Segment& segment;
  const Op& op;
  bool waits;  // the op communicates, so it may wait for other ranks
};

// Functions that the executors of an engine call. Each may be empty.
struct RunHooks {
  std::function<double()> now_s = {};  // clock for all times; without it they are zero
  std::function<void(const OpStart&)> started = {};  // must be cheap compared with an op
  // Called before each call that changes weights or moments; blocks until readers are done.
  std::function<void()> before_update = {};
  // Called after each graph capture on a GPU, with a log line about the graphs and their nodes.
  std::function<void(const std::string&)> captured = {};

  double time_s() const { return now_s ? now_s() : 0; }
};

// The communication of one run. Seconds are of the clock RunHooks::now_s.
struct CommunicationTime {
  double total_s = 0;                      // all transfers, from start to end
  double exposed_s = 0;                    // the part in which the compute queue waited
  std::map<GroupRef, double> exposed_by;   // exposed_s, by the group waited for
  std::map<GroupRef, int64_t> bytes_sent;  // sent by this rank to each group
};

// The transfer that the thread of a run waits for. Reported when a wait exceeds kLongWait.
struct Waiting {
  CallId call = kNone;           // the call whose transfer is awaited; kNone: no long wait
  std::string op;                // origin of the op
  std::vector<int64_t> group;    // ranks that participate in the transfer
  std::vector<int64_t> missing;  // those with messages that are not complete
  double since_s = 0;
};

// Reports the ops of a run to the hooks of the engine and to the observer of the run.
class OpReporter {
 public:
  // All arguments must outlive this object.
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

}  // namespace tessera::runtime
