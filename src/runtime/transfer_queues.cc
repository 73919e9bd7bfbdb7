// Progress of transfers on the host. Each queue is a FIFO of calls; its first call is advanced op
// by op, and the transfer of its second call may start early (early_start.cc) so that the link does
// not idle. Three callers advance the queues under one mutex: the computing thread when it waits,
// the same thread between ops, and the progress thread.
#include "runtime/transfer_queues.h"

#include <algorithm>

#include "comm/backoff.h"

namespace tessera::runtime {

TransferQueues::TransferQueues(BoundProgram& bound, const RunHooks& hooks, OpReporter& report,
                               bool poison)
    : bound_(bound), hooks_(hooks), report_(report), may_lead_(bound.program()) {
  if (poison) poison_.emplace(bound.program(), bound.arenas());
}

void TransferQueues::begin_run(const Observer& observe) {
  const std::lock_guard lock(moving_);  // the progress thread may still poll
  report_.begin_run(observe);
  time_ = {};
  failed_ = nullptr;
  sent_before_ = bound_.bytes_sent();
  over_.assign(bound_.program().schedule.size(), false);
  if (poison_) poison_->start();
}

void TransferQueues::end_run() {
  const std::lock_guard lock(moving_);
  report_.end_run();
  for (const auto& [group, bytes] : bound_.bytes_sent())
    time_.bytes_sent[group] = bytes - sent_before_.at(group);
}

TransferQueues::Pending& TransferQueues::pending(CallId c) {
  const Program& p = bound_.program();
  return queues_[static_cast<size_t>(p.segment(p.call(c)).queue)];
}

// Advances the queues immediately, since the call may be ready. The progress thread is needed only
// if other ranks participate and something is still pending.
void TransferQueues::issue(CallId c, int64_t op) {
  const std::lock_guard lock(moving_);
  const std::vector<PreparedOp>& ops = bound_.ops(c);
  if (op == kNone) {
    pending(c).push_back({c, 0, std::ssize(ops)});
  } else {
    const Queue queue = ops[op].op->queue;
    queues_[static_cast<size_t>(queue)].push_back({c, op, op + 1, true});
  }
  ++pending_calls_;
  progress();
  const bool apart = std::any_of(bound_.used().begin(), bound_.used().end(),
                                 [](const auto& use) { return use.second->size() > 1; });
  if (!apart || report_.observed() || pending_calls_ == 0) return;
  if (!thread_) thread_.emplace(moving_, [this] { return progress_in_thread(); });
  thread_->wake();
}

// Runs in the progress thread. Returns true if there is more to do.
bool TransferQueues::progress_in_thread() {
  if (failed_ || !report_.running() || report_.observed()) return false;
  try {
    progress();
  } catch (...) {
    failed_ = std::current_exception();
  }
  return pending_calls_ > 0 && !failed_;
}

void TransferQueues::begin_call(CallId c) {
  const std::lock_guard lock(moving_);
  begin(c);
  inner_over_.assign(bound_.ops(c).size(), false);
}

void TransferQueues::end_call(CallId c) {
  const std::lock_guard lock(moving_);
  end(c);
}

void TransferQueues::poll() {
  const std::unique_lock lock(moving_, std::try_to_lock);
  if (lock && pending_calls_ > 0) progress();
}

void TransferQueues::begin(CallId c) {
  if (poison_) poison_->before(c);
  bound_.bind(c);
}

void TransferQueues::end(CallId c) {
  if (poison_) poison_->after(c);
  over_[c] = true;
}

// An inner op needs no check of the compute ops that it waits for: they were complete when it was
// issued.
bool TransferQueues::may_start(const ActiveCall& a) const {
  if (!a.inner) {
    const std::vector<CallId>& after = bound_.program().call(a.call).after;
    return std::all_of(after.begin(), after.end(), [&](CallId y) { return over_[y]; });
  }
  const std::vector<PreparedOp>& ops = bound_.ops(a.call);
  const std::vector<int32_t>& after = ops[a.op].op->after;
  return std::all_of(after.begin(), after.end(),
                     [&](int32_t j) { return !is_inner(ops[j].op->queue) || inner_over_[j]; });
}

// Returns true if any queue advanced.
bool TransferQueues::progress() {
  bool moved = false;
  for (Pending& queue : queues_)
    while (move(queue)) moved = true;
  return moved;
}

bool TransferQueues::move(Pending& queue) {
  if (queue.empty()) return false;
  const bool moved = move_first(queue);
  return lead(queue) || moved;
}

// Advances the first call by one op. Returns true if it advanced.
bool TransferQueues::move_first(Pending& queue) {
  ActiveCall& a = queue.front();
  if (!a.under_way) {
    if (!may_start(a)) return false;
    if (!a.inner) begin(a.call);
    a.under_way = true;
  }
  if (a.op < a.end) {
    if (!move_op(a, bound_.ops(a.call)[a.op])) return false;
    ++a.op;
  }
  if (a.op == a.end) {
    if (a.inner)
      inner_over_[a.op - 1] = true;
    else
      end(a.call);
    queue.pop_front();
    --pending_calls_;
    // Overlapping transfers count once in total_s.
    if (!queue.empty() && queue.front().transfer) queue.front().transfer->since_s = hooks_.time_s();
  }
  return true;
}

// Returns true if the op is complete.
bool TransferQueues::move_op(ActiveCall& a, PreparedOp& op) {
  if (!op.bound.channel) {
    const double began = report_.now_s();
    if (op.binding->run) op.binding->run(op.bound);
    report_.finished(a.call, op.bound, began);
    return true;
  }
  if (!a.transfer) a.transfer = start(op);
  op.bound.channel->progress();
  if (!finish(*a.transfer)) return false;
  report_.finished(a.call, a.transfer->bound, a.transfer->since_s);
  a.transfer.reset();
  return true;
}

bool TransferQueues::may_lead(const ActiveCall& a) const {
  if (!a.inner) return may_lead_.calls[a.call];
  return may_lead_.ops[bound_.program().call(a.call).segment][a.op];
}

// Starts the transfer of a queue's second call while the first one is in progress, so that the
// link does not pause between them. Returns true if it did.
bool TransferQueues::lead(Pending& queue) {
  if (queue.size() < 2) return false;
  const ActiveCall& a = queue[0];
  ActiveCall& b = queue[1];
  if (!a.transfer || a.op + 1 != a.end) return false;
  if (b.transfer || !may_lead(b) || !may_start(b)) return false;
  if (!b.inner) begin(b.call);
  b.under_way = true;
  for (;; ++b.op) {
    PreparedOp& op = bound_.ops(b.call)[b.op];
    if (op.bound.channel) {
      b.transfer = start(op);
      return true;
    }
    move_op(b, op);
  }
}

TransferQueues::Transfer TransferQueues::start(const PreparedOp& op) const {
  const double now = hooks_.time_s();
  return {start_transfer(op.bound), now, op.bound};
}

bool TransferQueues::finish(const Transfer& t) {
  if (!t.bound.channel->done(t.ticket)) return false;
  finish_transfer(t.bound);
  time_.total_s += hooks_.time_s() - t.since_s;
  return true;
}

void TransferQueues::exchange(CallId c, PreparedOp& op) {
  Transfer t;
  {
    const std::lock_guard lock(moving_);
    t = start(op);
  }
  const auto over = [&] { return finish(t); };
  const auto move = [&] {
    const bool moved = op.bound.channel->progress();
    return progress() || moved;
  };
  wait(over, move, c, &op);
}

void TransferQueues::wait_for(CallId c, int64_t op) {
  const auto over = [&] { return op == kNone ? bool{over_[c]} : bool{inner_over_[op]}; };
  const PreparedOp* const of_call = op == kNone ? nullptr : &bound_.ops(c)[op];
  wait(
      over, [&] { return progress(); }, c, of_call);
}

// Waits until over() is true: for an op of a compute call, or, if `op` is nullptr, for a call of a
// queue.
template <class Over, class Move>
void TransferQueues::wait(const Over& over, const Move& move, CallId c, const PreparedOp* op) {
  std::unique_lock lock(moving_);
  if (over()) return;
  const double since = hooks_.time_s();
  const GroupRef group = op ? group_of(*op->op) : bound_.group_of_call(c);
  comm::Backoff backoff;
  while (!over()) {
    if (failed_) std::rethrow_exception(failed_);
    if (move()) {
      backoff.moved();
      continue;
    }
    if (backoff.sleeps() % kLongWait == 1) report_wait(c, op, since);
    // The mutex is released during the pause, so that the progress thread can continue.
    lock.unlock();
    backoff.pause();
    lock.lock();
  }
  const double waited = hooks_.time_s() - since;
  time_.exposed_s += waited;
  time_.exposed_by[group] += waited;
  waiting_.clear();
}

// Reports what the caller waits for: the op, or, since calls of a queue run in order, the first
// call of the queue.
void TransferQueues::report_wait(CallId c, const PreparedOp* op, double since_s) {
  Waiting w;
  const ActiveCall* const first = op ? nullptr : &pending(c).front();
  w.call = first ? first->call : c;
  w.since_s = since_s;
  const std::vector<PreparedOp>& ops = bound_.ops(w.call);
  if (first && first->under_way) op = &ops[first->op];
  if (op || !ops.empty()) report_.started(w.call, op ? *op : ops.front(), true);
  if (op && op->bound.channel) {
    w.op = op->op->origin;
    w.group = op->bound.channel->ranks();
    w.missing = op->bound.channel->missing();
  }
  waiting_.set(std::move(w));
}

}  // namespace tessera::runtime
