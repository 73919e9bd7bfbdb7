// What a run reports: ops, waits and communication times.
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

// An op that has just run, for tracing and for the search of bad numbers.
struct OpEvent {
  const Call& call;
  const Segment& segment;
  const BoundOp& op;
  double start_s;  // on the executor's clock; for a transfer, when it was started
  const Executor& executor;

  // Returns an operand where the host can read it, until the next call.
  TensorView host(const TensorView& operand) const;
  // Returns the index of its first element that is not finite, searched where it is stored; -1:
  // all are finite. For f32, bf16 and f16.
  int64_t first_non_finite(const TensorView& operand) const;
};
using Observer = std::function<void(const OpEvent&)>;

// An op of the compute queue that starts, or one of any queue for which this rank has waited for
// long.
struct OpStart {
  const Call& call;
  const Segment& segment;
  const Op& op;
  bool waits;  // for other ranks: it communicates
};

// What all executors of a machine call; each may be empty.
struct RunHooks {
  std::function<double()> now_s = {};  // the clock of all times, which are zero without it
  std::function<void(const OpStart&)> started = {};  // must be cheap compared with an op
  // Called before each call that changes weights or moments; blocks until readers are done.
  std::function<void()> before_update = {};
  // Once per program, with the numbers of graphs and nodes of a run on a GPU, in words.
  std::function<void(const std::string&)> captured = {};

  double time_s() const { return now_s ? now_s() : 0; }
};

// Of one run, in seconds of the clock of the hooks.
struct CommunicationTime {
  double total_s = 0;                      // of all transfers, from start to end
  double exposed_s = 0;                    // the compute queue waited
  std::map<GroupRef, double> exposed_by;   // of these, by the group waited for
  std::map<GroupRef, int64_t> bytes_sent;  // by this rank, to each group
};

// What the thread of a run waits for, reported when the wait is no longer short.
struct Waiting {
  CallId call = kNone;           // whose transfer is under way; kNone: no long wait
  std::string op;                // its origin
  std::vector<int64_t> group;    // ranks that take part
  std::vector<int64_t> missing;  // of these, whose messages have not come or not left
  double since_s = 0;
};

// Reports the ops of a run to the hooks of the machine and to the observer of the run.
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

}  // namespace tessera::runtime
