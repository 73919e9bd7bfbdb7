// The queues of a program whose calls are transfers, on the host, and its inner queues. Calls of a
// queue run first in, first out, each when the calls it comes after are over; so do ops of an inner
// queue, of one call at a time. A progress thread moves them while the caller computes, and the
// caller does when it waits.
#pragma once

#include <array>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>

#include "runtime/executor.h"
#include "runtime/lead.h"
#include "runtime/poison.h"
#include "runtime/progress_thread.h"
#include "runtime/wait_report.h"

namespace tessera::runtime {

class TransferQueues {
 public:
  // All of them outlive this. `poison`: see poison.h.
  TransferQueues(BoundProgram& bound, const RunHooks& hooks, OpReporter& report, bool poison);

  // Around a run. While none is under way, no thread but the caller's uses the communicators.
  void begin_run(const Observer& observe);
  void end_run();

  // Appends the call to its queue. With `op`, of a call of the compute queue that has begun: that
  // op, to its inner queue, when the ops of the compute queue before it are over.
  void issue(CallId c, int64_t op = kNone);
  // Around a call of the compute queue.
  void begin_call(CallId c);
  void end_call(CallId c);
  // Runs a transfer of the compute queue. The queues progress meanwhile, since its partners may
  // wait for them. Throws Error if a peer is lost, as wait_for() does.
  void exchange(CallId c, PreparedOp& op);
  // Returns when the call, or that op of it, is over.
  void wait_for(CallId c, int64_t op = kNone);
  // Makes some progress between two ops of the compute queue, if the progress thread does not.
  void poll();

  const CommunicationTime& communication() const { return time_; }
  Waiting waiting() const { return waiting_.get(); }

 private:
  struct Transfer {
    comm::Ticket ticket = 0;
    double since_s = 0;
    BoundOp bound;  // the prepared op may be bound again before the transfer is done
  };
  // A call of a queue that is not over, or an op of an inner queue.
  struct Active {
    CallId call = kNone;
    int64_t op = 0, end = 0;  // the next op, and that behind the last one
    bool inner = false;
    bool under_way = false;
    std::optional<Transfer> transfer = {};  // of the next op
  };
  // The first is under way, and the second too where it may_lead.
  using Pending = std::deque<Active>;

  Pending& pending(CallId c);
  bool progress_in_thread();
  void begin(CallId c);
  void end(CallId c);
  bool may_start(const Active& a) const;
  bool may_lead(const Active& a) const;
  bool progress();
  bool move(Pending& queue);
  bool move_first(Pending& queue);
  bool move_op(Active& a, PreparedOp& op);
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
  MayLead may_lead_;
  std::map<GroupRef, int64_t> sent_before_;
  WaitReport waiting_;
  // What the progress thread shares: from here to `failed_`, and all that communicates.
  std::mutex moving_;
  IdVector<CallId, bool> over_;
  std::vector<bool> inner_over_;  // ops of inner queues, of the call of the compute queue
  std::array<Pending, kQueues> queues_;
  int64_t pending_calls_ = 0;  // in all queues, and ops of inner queues
  CommunicationTime time_;
  std::exception_ptr failed_;             // thrown in the progress thread
  std::optional<ProgressThread> thread_;  // last, so that it stops before the others are destroyed
};

}  // namespace tessera::runtime
