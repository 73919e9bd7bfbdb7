// The transfer queues and inner queues of a program on the host. Calls of a queue run first in,
// first out, each after the calls in its `after` are complete; ops of an inner queue do the same,
// for one call at a time. A progress thread advances the queues while the caller computes, and the
// caller does so when it waits.
#pragma once

#include <array>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>

#include "runtime/early_start.h"
#include "runtime/executor.h"
#include "runtime/poison.h"
#include "runtime/progress_thread.h"
#include "runtime/wait_report.h"

namespace tessera::runtime {

class TransferQueues {
 public:
  // All references must outlive this object. `poison`: see poison.h.
  TransferQueues(BoundProgram& bound, const RunHooks& hooks, OpReporter& report, bool poison);

  // Called at the start and end of a run. Between runs, only the caller's thread uses the
  // communicators.
  void begin_run(const Observer& observe);
  void end_run();

  // Appends the call to its queue. With `op`, appends that op of a compute call that has begun to
  // its inner queue; the ops of the compute queue before it must be complete.
  void issue(CallId c, int64_t op = kNone);
  // Called at the start and end of a call of the compute queue.
  void begin_call(CallId c);
  void end_call(CallId c);
  // Runs a transfer of the compute queue. The queues progress meanwhile, because the other ranks of
  // the transfer may wait for them. Throws Error if another rank has failed, as wait_for() does.
  void exchange(CallId c, PreparedOp& op);
  // Waits until the call, or that op of it, is complete.
  void wait_for(CallId c, int64_t op = kNone);
  // Advances the queues between two ops of the compute queue, unless the progress thread is doing
  // so.
  void poll();

  const CommunicationTime& communication() const { return time_; }
  Waiting waiting() const { return waiting_.get(); }

 private:
  struct Transfer {
    comm::Ticket ticket = 0;
    double since_s = 0;
    BoundOp bound;  // the prepared op may be bound again before the transfer is done
  };
  // A call of a queue that is not complete, or an op of an inner queue.
  struct ActiveCall {
    CallId call = kNone;
    int64_t op = 0, end = 0;  // the next op, and one past the last op
    bool inner = false;
    bool under_way = false;
    std::optional<Transfer> transfer = {};  // transfer of the op at index `op`
  };
  // The first entry is in progress, and the second too if it may_lead().
  using Pending = std::deque<ActiveCall>;

  Pending& pending(CallId c);
  bool progress_in_thread();
  void begin(CallId c);
  void end(CallId c);
  bool may_start(const ActiveCall& a) const;
  bool may_lead(const ActiveCall& a) const;
  bool progress();
  bool move(Pending& queue);
  bool move_first(Pending& queue);
  bool move_op(ActiveCall& a, PreparedOp& op);
  bool lead(Pending& queue);
  Transfer start(const PreparedOp& op) const;
  bool finish(const Transfer& t);
  template <class Over, class Move>
  void wait(const Over& over, const Move& move, CallId c, const PreparedOp* op);
  void report_wait(CallId c, const PreparedOp* op, double since_s);

  BoundProgram& bound_;
  const RunHooks& hooks_;
  OpReporter& report_;
  std::optional<Poison> poison_;
  EarlyStarts may_lead_;
  std::map<GroupRef, int64_t> sent_before_;
  WaitReport waiting_;
  // Protects the members from here to `failed_`, and all communicators, which the progress thread
  // uses too.
  std::mutex moving_;
  IdVector<CallId, bool> over_;
  std::vector<bool> inner_over_;  // per op of the current compute call: inner ops that are complete
  std::array<Pending, kQueues> queues_;
  int64_t pending_calls_ = 0;  // entries of all queues
  CommunicationTime time_;
  std::exception_ptr failed_;             // thrown in the progress thread
  std::optional<ProgressThread> thread_;  // last: stops before the other members are destroyed
};

}  // namespace tessera::runtime
