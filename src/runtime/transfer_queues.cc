// Progress of transfers on the host: polls the first transfer of each queue, and starts the second
// where both may be under way at once.
#include "runtime/transfer_queues.h"

#include <algorithm>

#include "comm/idle.h"
#include "runtime/lead.h"

namespace tessera {

TransferQueues::TransferQueues(BoundProgram& bound, const RunHooks& hooks, OpReporter& report,
                               bool poison)
    : bound_(bound),
      hooks_(hooks),
      report_(report),
      may_lead_(calls_that_may_lead(bound.program())) {
  if (poison) poison_.emplace(bound.program(), bound.arenas());
}

void TransferQueues::begin_run(const Observer& observe) {
  const std::lock_guard lock(moving_);  // the progress thread may be about to poll
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

void TransferQueues::issue(CallId c) {
  const std::lock_guard lock(moving_);
  pending(c).push_back({c});
  ++pending_calls_;
  progress();
  const bool apart = std::any_of(bound_.used().begin(), bound_.used().end(),
                                 [](const auto& use) { return use.second->size() > 1; });
  if (!apart || report_.observed() || pending_calls_ == 0) return;
  if (!thread_) thread_.emplace(moving_, [this] { return progress_in_thread(); });
  thread_->wake();
}

// What the progress thread does. Returns whether there is more to do.
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

bool TransferQueues::may_start(const Call& call) const {
  return std::all_of(call.after.begin(), call.after.end(), [&](CallId y) { return over_[y]; });
}

// Returns whether anything moved in any queue.
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

// Moves the first call by one op. Returns whether it moved.
bool TransferQueues::move_first(Pending& queue) {
  Active& a = queue.front();
  std::vector<PreparedOp>& ops = bound_.ops(a.call);
  if (a.op == kNone) {
    if (!may_start(bound_.program().call(a.call))) return false;
    begin(a.call);
    a.op = 0;
  }
  if (a.op < static_cast<int64_t>(ops.size())) {
    if (!move_op(a, ops[static_cast<size_t>(a.op)])) return false;
    ++a.op;
  }
  if (a.op == static_cast<int64_t>(ops.size())) {
    end(a.call);
    queue.pop_front();
    --pending_calls_;
    // Overlapping transfers count once in total_s.
    if (!queue.empty() && queue.front().transfer) queue.front().transfer->since_s = hooks_.time_s();
  }
  return true;
}

// Returns whether the op is over.
bool TransferQueues::move_op(Active& a, PreparedOp& op) {
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

// Starts the transfer of the second call of a queue after that of the first, so that the link has
// no pause between them. Returns whether it did.
bool TransferQueues::lead(Pending& queue) {
  if (queue.size() < 2) return false;
  const Active& a = queue[0];
  Active& b = queue[1];
  if (!a.transfer || a.op + 1 != static_cast<int64_t>(bound_.ops(a.call).size())) return false;
  if (b.transfer || !may_lead_[b.call] || !may_start(bound_.program().call(b.call))) return false;
  begin(b.call);
  for (b.op = 0;; ++b.op) {
    PreparedOp& op = bound_.ops(b.call)[static_cast<size_t>(b.op)];
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

void TransferQueues::wait_for(CallId c) {
  const auto over = [&] { return bool{over_[c]}; };
  wait(
      over, [&] { return progress(); }, c, nullptr);
}

// Waits for an op of a compute call, or, if it is nullptr, for a call of a queue.
template <class Over, class Move>
void TransferQueues::wait(const Over& over, const Move& move, CallId c, const PreparedOp* op) {
  std::unique_lock lock(moving_);
  if (over()) return;
  const double since = hooks_.time_s();
  const GroupRef group = op ? group_of(*op->op) : bound_.group_of_call(c);
  Idle idle;
  while (!over()) {
    if (failed_) std::rethrow_exception(failed_);
    if (move()) {
      idle.moved();
      continue;
    }
    if (idle.sleeps() % kLongWait == 1) report_wait(c, op, since);
    lock.unlock();
    idle.pause();
    lock.lock();
  }
  const double waited = hooks_.time_s() - since;
  time_.exposed_s += waited;
  time_.exposed_by[group] += waited;
  waiting_.clear();
}

// A call waits for the first call of its queue.
void TransferQueues::report_wait(CallId c, const PreparedOp* op, double since_s) {
  Waiting w;
  const Active* const first = op ? nullptr : &pending(c).front();
  w.call = first ? first->call : c;
  w.since_s = since_s;
  const std::vector<PreparedOp>& ops = bound_.ops(w.call);
  if (first && first->op != kNone) op = &ops[static_cast<size_t>(first->op)];
  if (op || !ops.empty()) report_.started(w.call, op ? *op : ops.front(), true);
  if (op && op->bound.channel) {
    w.op = op->op->origin;
    w.group = op->bound.channel->ranks();
    w.missing = op->bound.channel->missing();
  }
  waiting_.set(std::move(w));
}

}  // namespace tessera
