// Runs the calls of a program in their order.
#include <algorithm>

#include "base/error.h"
#include "comm/idle.h"
#include "runtime/executor.h"

namespace tessera {
namespace {

// A wait is told of after this many sleeps (some milliseconds), and again after as many.
constexpr int64_t kLongWait = 100;

}  // namespace

void Executor::run(const std::function<void(const OpEvent&)>& observe) {
  {
    const std::lock_guard lock(moving_);  // the mover may be about to ask
    observe_ = &observe;
    time_ = {};
    failed_ = nullptr;
    count_bytes(-1);
    over_.assign(program_.schedule.size(), false);
    if (poison_) poison_->start();
  }
  // Also where an Error passes: the mover must not go on with half a run.
  struct End {
    Executor& e;
    ~End() {
      const std::lock_guard lock(e.moving_);
      e.count_bytes(+1);
      e.observe_ = nullptr;
    }
  } const end{*this};
  if (device_) return run_on_device();
  for (const CallId c : program_.schedule.ids())
    if (program_.segment(program_.call(c)).queue == Queue::kCompute)
      compute(c);
    else
      issue(c);
  for (const CallId c : program_.schedule.ids()) wait_for(c);
}

void Executor::issue(CallId c) {
  const std::lock_guard lock(moving_);
  line_of(c).push_back({c});
  ++queued_;
  progress();
  const bool apart = std::any_of(used_.begin(), used_.end(),
                                 [](const auto& use) { return use.second->size() > 1; });
  if (!apart || *observe_ || queued_ == 0) return;
  if (!mover_) mover_.emplace(moving_, [this] { return move_lines(); });
  mover_->wake();
}

// What the mover does. Whether there is more to come.
bool Executor::move_lines() {
  if (failed_ || !observe_ || *observe_) return false;
  try {
    progress();
  } catch (...) {
    failed_ = std::current_exception();
  }
  return queued_ > 0 && !failed_;
}

std::vector<PreparedOp>& Executor::ops_of(CallId c) { return prepared_[program_.call(c).segment]; }

void Executor::compute(CallId c) {
  for (const CallId y : program_.call(c).after) wait_for(y);
  if (before_update_ && updates_[program_.call(c).segment]) before_update_();
  {
    const std::lock_guard lock(moving_);
    begin(c);
  }
  for (PreparedOp& op : ops_of(c)) {
    announce(c, op, op.bound.channel != nullptr);
    const double began = *observe_ ? now_s() : 0;
    if (op.bound.channel)
      exchange(c, op);
    else if (op.binding->run)
      op.binding->run(op.bound);
    observe(c, op.bound, began);
    const std::unique_lock lock(moving_, std::try_to_lock);
    if (lock && queued_ > 0) progress();
  }
  const std::lock_guard lock(moving_);
  end(c);
}

void Executor::begin(CallId c) {
  if (poison_) poison_->before(c);
  const Call& call = program_.call(c);
  for (PreparedOp& op : ops_of(c)) bind(op, call, program_.segment(call));
}

void Executor::end(CallId c) {
  if (poison_) poison_->after(c);
  over_[c] = true;
}

void Executor::announce(CallId c, const PreparedOp& op, bool waits) const {
  const Call& call = program_.call(c);
  if (started_) started_({call, program_.segment(call), *op.op, waits});
}

void Executor::observe(CallId c, const BoundOp& op, double start_s) const {
  const Call& call = program_.call(c);
  if (*observe_) (*observe_)({call, program_.segment(call), op, start_s, *this});
}

bool Executor::may_start(const Call& call) const {
  return std::all_of(call.after.begin(), call.after.end(), [&](CallId y) { return over_[y]; });
}

// Whether anything moved on any line.
bool Executor::progress() {
  bool moved = false;
  for (Line& line : lines_)
    while (move(line)) moved = true;
  return moved;
}

bool Executor::move(Line& line) {
  if (line.empty()) return false;
  const bool moved = move_first(line);
  return lead(line) || moved;
}

// By one op. Whether it moved.
bool Executor::move_first(Line& line) {
  Active& a = line.front();
  std::vector<PreparedOp>& ops = ops_of(a.call);
  if (a.op == kNone) {
    if (!may_start(program_.call(a.call))) return false;
    begin(a.call);
    a.op = 0;
  }
  if (a.op < static_cast<int64_t>(ops.size())) {
    if (!move_op(a, ops[static_cast<size_t>(a.op)])) return false;
    ++a.op;
  }
  if (a.op == static_cast<int64_t>(ops.size())) {
    end(a.call);
    line.pop_front();
    --queued_;
    // The time of two at once counts once.
    if (!line.empty() && line.front().transfer) line.front().transfer->since_s = now_s();
  }
  return true;
}

// Whether the op is over.
bool Executor::move_op(Active& a, PreparedOp& op) {
  if (!op.bound.channel) {
    const double began = *observe_ ? now_s() : 0;
    if (op.binding->run) op.binding->run(op.bound);
    observe(a.call, op.bound, began);
    return true;
  }
  if (!a.transfer) a.transfer = start(op);
  op.bound.channel->progress();
  if (!finish(*a.transfer)) return false;
  observe(a.call, a.transfer->bound, a.transfer->since_s);
  a.transfer.reset();
  return true;
}

// Starts the transfer of the second call of a line behind that of the first, so that the link has
// no pause between them. Whether it did.
bool Executor::lead(Line& line) {
  if (line.size() < 2) return false;
  const Active& a = line[0];
  Active& b = line[1];
  if (!a.transfer || a.op + 1 != static_cast<int64_t>(ops_of(a.call).size())) return false;
  if (b.transfer || !may_lead_[b.call] || !may_start(program_.call(b.call))) return false;
  begin(b.call);
  for (b.op = 0;; ++b.op) {
    PreparedOp& op = ops_of(b.call)[static_cast<size_t>(b.op)];
    if (op.bound.channel) {
      b.transfer = start(op);
      return true;
    }
    move_op(b, op);
  }
}

Executor::Transfer Executor::start(const PreparedOp& op) const {
  const double now = now_s();
  return {start_transfer(op.bound), now, op.bound};
}

bool Executor::finish(const Transfer& t) {
  if (!t.bound.channel->done(t.ticket)) return false;
  finish_transfer(t.bound);
  time_.total_s += now_s() - t.since_s;
  return true;
}

// Of an op of the compute queue: the lines move on meanwhile, since its partners may wait for them.
void Executor::exchange(CallId c, PreparedOp& op) {
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

void Executor::wait_for(CallId c) {
  const auto over = [&] { return bool{over_[c]}; };
  wait(
      over, [&] { return progress(); }, c, nullptr);
}

// For an op of a compute call, or (nullptr) for a call in a line.
template <class Over, class Move>
void Executor::wait(const Over& over, const Move& move, CallId c, const PreparedOp* op) {
  std::unique_lock lock(moving_);
  if (over()) return;
  const double since = now_s();
  const GroupRef group = group_of_call(c, op);
  Idle idle;
  while (!over()) {
    if (failed_) std::rethrow_exception(failed_);
    if (move()) {
      idle.moved();
      continue;
    }
    if (idle.sleeps() % kLongWait == 1) tell(c, op, since);
    lock.unlock();
    idle.pause();
    lock.lock();
  }
  const double waited = now_s() - since;
  time_.exposed_s += waited;
  time_.exposed_by[group] += waited;
  tell(kNone, nullptr, 0);
}

GroupRef Executor::group_of_call(CallId c, const PreparedOp* op) {
  if (op) return group_of(*op->op);
  for (const PreparedOp& o : ops_of(c))
    if (o.bound.channel) return group_of(*o.op);
  return {};
}

// What stands still is the first call of the line.
void Executor::tell(CallId c, const PreparedOp* op, double since_s) {
  Waiting w;
  if (c != kNone) {
    const Active* const first = op ? nullptr : &line_of(c).front();
    w.call = first ? first->call : c;
    w.since_s = since_s;
    if (first && first->op != kNone) op = &ops_of(w.call)[static_cast<size_t>(first->op)];
    if (op || !ops_of(w.call).empty()) announce(w.call, op ? *op : ops_of(w.call).front(), true);
    if (op && op->bound.channel) {
      w.op = op->op->origin;
      w.group = op->bound.channel->ranks();
      w.missing = op->bound.channel->missing();
    }
  }
  const std::lock_guard lock(waiting_mutex_);
  waiting_ = std::move(w);
}

Waiting Executor::waiting() const {
  const std::lock_guard lock(waiting_mutex_);
  return waiting_;
}

void Executor::count_bytes(int64_t sign) {
  for (const auto& [group, channel] : used_)
    time_.bytes_sent[group] += sign * channel->bytes_sent();
}

}  // namespace tessera
