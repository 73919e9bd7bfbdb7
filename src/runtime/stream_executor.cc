// Runs a program on a GPU: enqueues its calls in streams, captures them as graphs that later steps
// launch, and monitors the device while the host waits.
//
//   run 0      enqueued directly (the device loads its kernels when they first run)
//   run 1      captured as graphs, which are then launched
//   run 2 …    launched; start() may enqueue a run while the previous one is in progress
//
// While the host waits, it polls the channels, because a transfer with a failed rank never
// completes.
#include "runtime/stream_executor.h"

#include <algorithm>
#include <set>
#include <thread>

#include "base/error.h"
#include "comm/backoff.h"
#include "ir/rule.h"
#include "ir/state.h"
#include "runtime/shared_device.h"

namespace tessera::runtime {
namespace {

// Returns the number of a transfer for DeviceMarks. Numbers increase in issue order.
int64_t number_of(CallId c, int64_t op) {
  constexpr int64_t kMostOps = 1 << 20;
  return int64_t{c.number()} * kMostOps + op + 1;
}

// Returns whether a run copies changed state to the host.
bool updates_host(const BoundProgram& bound) {
  const Program& p = bound.program();
  for (const CallId c : p.schedule.ids())
    if (p.segment(p.call(c)).queue == Queue::kCopyOut && bound.updates(c)) return true;
  return false;
}

Queue queue_of(const Program& p, CallId c, const PreparedOp& op) {
  return tessera::queue_of(*op.op, p.segment(p.call(c)).queue);
}

// Returns the group whose transfers an op of the compute queue waits for; empty if it waits for
// none.
GroupRef group_before(const std::vector<PreparedOp>& ops, size_t i) {
  GroupRef group;
  if (is_inner(ops[i].op->queue)) return group;
  for (const int32_t j : ops[i].op->after)
    if (const PreparedOp& before = ops[j]; before.bound.channel) group = group_of(*before.op);
  return group;
}

// Aborts all channels. Kernels that wait for a failed rank must stop before their memory can be
// freed. NCCL's abort waits for the graphs that contain its kernels, and these wait for the kernels
// of all channels. So the caller destroys the graphs first, and all channels are aborted in
// parallel.
void abandon_channels(const BoundProgram& bound) {
  std::set<comm::Communicator*> channels;
  for (const auto& use : bound.used()) channels.insert(use.second);
  std::vector<std::jthread> aborts;
  for (comm::Communicator* channel : channels)
    aborts.emplace_back([channel] { channel->abandon(); });
}

// Returns the group of the call's last transfer on an inner queue; empty if there is none.
GroupRef last_inner_group(const std::vector<PreparedOp>& ops) {
  GroupRef group;
  for (const PreparedOp& op : ops)
    if (is_inner(op.op->queue) && op.bound.channel) group = group_of(*op.op);
  return group;
}

}  // namespace

StreamExecutor::StreamExecutor(BoundProgram& bound, const kernels::KernelTable& kernels,
                               const RunHooks& hooks)
    : Executor(bound),
      kernels_(kernels),
      hooks_(hooks),
      updates_host_(updates_host(bound)),
      report_(*this, hooks),
      queues_(bound.program()),
      exchange_(bound) {
  bound.use_streams([this](Queue q) { return queues_.stream(q); }, exchange_.host_step());
  for (const CallId c : program().schedule.ids())
    for (const PreparedOp& op : bound.ops(c))
      if (op.is_on_stream()) marks_.use(queue_of(program(), c, op));
}

// Returns whether runs can be graphs: all channels must be on streams, because a transfer through
// the host cannot be captured.
bool StreamExecutor::graphs_wanted() const {
  return std::all_of(bound_.used().begin(), bound_.used().end(),
                     [](const auto& use) { return use.second->is_on_stream(); });
}

TensorView StreamExecutor::fetch(const TensorView& device) const {
  if (!bound_.arena().contains(device.data)) return device;
  if (hooks_.before_update) hooks_.before_update();  // waits for readers of an earlier copy
  const TensorView host = bound_.arena().download(queues_.main(), device);
  synchronise(queues_.main());
  return host;
}

void StreamExecutor::send(const TensorView& host) const {
  bound_.arena().upload(queues_.main(), host);
  synchronise(queues_.main());
}

int64_t StreamExecutor::first_non_finite(const TensorView& t) const {
  int64_t first = -1;
  if (!bound_.arena().contains(t.data)) {  // an offloaded value, in host memory
    kernels::launch(kernels::Cpu(), {.threads = bound_.threads()},
                    kernels::FirstNonFiniteArgs{flat(t), &first});
    return first;
  }
  const auto& kernel = kernels_.of<kernels::FirstNonFiniteArgs>();
  const int64_t partials = kernel.workspace_bytes({flat(t), nullptr}, 1);
  const DeviceBuffer memory("the search for the first non-finite value",
                            partials + int64_t{sizeof(first)});
  std::byte* const found = memory.data() + partials;
  kernel.run({queues_.main(), memory.data()}, {flat(t), reinterpret_cast<int64_t*>(found)});
  copy_in_stream(queues_.main(), &first, found, sizeof(first));
  synchronise(queues_.main());
  return first;
}

bool StreamExecutor::can_run_ahead() const {
  const double* step = exchange_.host_step();
  return step && graphs_wanted() && !timing_due() && graphs_.is_for(step[kSeed]);
}

// A save reads device state from a copy, but host state in place. Since nothing can wait in the
// middle of a graph, the wait for readers comes before the launch.
void StreamExecutor::launch_graphs() {
  if (hooks_.before_update && updates_host_) hooks_.before_update();
  graphs_.launch(queues_.main());
}

// The results of the previous run are fetched first: the host has read those of the run before it,
// and this run overwrites them on the device.
void StreamExecutor::start() {
  CHECK(can_run_ahead() && under_way_ < 2, "start() with {} runs in progress", under_way_);
  if (under_way_ > 0) exchange_.fetch(queues_.main());
  exchange_.send(queues_.main());
  if (under_way_ > 0) exchange_.carry_skip(queues_.main());
  launch_graphs();
  ++under_way_;
  ++runs_;
}

// The host mirror has space for the results of one run only. Nothing that is enqueued so far
// overwrites the results that the caller reads next.
void StreamExecutor::finish() {
  CHECK(under_way_ > 0, "finish() with no run in progress");
  exchange_.fetch(queues_.main());
  wait_for(exchange_.fetched());
  exchange_.finish_fetch();
  --under_way_;
  time_ = measured_;
  time_.bytes_sent = graphs_.bytes_sent;
}

void StreamExecutor::wait_until_read() const {
  if (under_way_ > 0) exchange_.wait_until_read();
}

void StreamExecutor::run(const Observer& observe) {
  CHECK(under_way_ == 0, "run() with {} runs in progress", under_way_);
  struct End {
    OpReporter& report;
    ~End() { report.end_run(); }
  } const end{report_};
  report_.begin_run(observe);
  time_ = {};
  exchange_.finish_fetch();  // if the last run ended with an Error
  exchange_.send(queues_.main());
  const bool timed = run_calls();
  if (!report_.observed()) ++runs_;
  exchange_.fetch(queues_.main());
  wait_for(exchange_.fetched());
  exchange_.finish_fetch();
  if (timed) {
    measured_ = {};
    times_.collect(measured_);
  }
  if (!marks_.used()) return;
  time_.total_s = measured_.total_s;
  time_.exposed_s = measured_.exposed_s;
  time_.exposed_by = measured_.exposed_by;
}

// Enqueues the calls, or launches their graphs. Returns whether their transfers are timed.
bool StreamExecutor::run_calls() {
  const bool observed = report_.observed();
  const double* step = exchange_.host_step();
  const double seed = step ? step[kSeed] : 0;
  const bool timed = !observed && graphs_wanted() && timing_due();
  // The device loads kernels when they first run, so the first run is never a graph.
  const bool direct = !graphs_wanted() || observed || timed || runs_ == 0 || graphs_.refused();
  if (!direct && !graphs_.is_for(seed)) capture(seed);
  if (direct || graphs_.empty()) {
    const std::map<GroupRef, int64_t> before = bound_.bytes_sent();
    enqueue(timed ? Enqueue::kTimed : Enqueue::kPlain);
    for (const auto& [group, bytes] : bound_.bytes_sent())
      time_.bytes_sent[group] = bytes - before.at(group);
  } else {
    launch_graphs();
    time_.bytes_sent = graphs_.bytes_sent;
  }
  return timed;
}

// Captures the calls as graphs. A capture itself sends nothing, so the bytes that it counts are
// those of each launch.
void StreamExecutor::capture(double seed) {
  const std::map<GroupRef, int64_t> before = bound_.bytes_sent();
  graphs_.begin(queues_.main());
  try {
    const bool whole = enqueue(Enqueue::kCapture);
    graphs_.end(queues_.main(), whole, seed);
  } catch (const Error&) {
    graphs_.clear();  // closes the capture; memory cannot be freed during one
    throw;
  }
  graphs_.bytes_sent = bound_.bytes_sent();
  for (auto& [group, bytes] : graphs_.bytes_sent) bytes -= before.at(group);
  if (hooks_.captured) hooks_.captured(graphs_.summary(program().name));
}

// Called before each call of a capture: ends a full graph and begins the next one, whose calls
// follow all earlier ones. Ranks may be cut at different calls, because calls can always run one by
// one in issue order. Returns false if there are too many nodes.
bool StreamExecutor::cut_full_graph(CallId next) {
  if (!graphs_.is_full()) return true;
  queues_.join();
  if (!graphs_.cut(queues_.main())) return false;
  queues_.fork(next);
  return true;
}

// Waits for the event. A transfer with a failed rank never completes, so the channels are polled.
void StreamExecutor::wait_for(const GpuEvent& event) {
  if (bound_.used().empty()) return event.synchronise();
  const double since = hooks_.time_s();
  comm::Backoff backoff;
  try {
    while (!event.is_over()) {
      for (const auto& use : bound_.used()) use.second->progress();
      if (backoff.sleeps() % kLongWait == 1) report_transfer(since);
      backoff.pause();
    }
  } catch (const Error&) {
    graphs_.clear();
    abandon_channels(bound_);
    throw;
  }
  if (marks_.used()) waiting_.clear();
}

// Reports the transfer that the device is executing: the first in issue order that has started and
// is not done. It is waiting for other ranks if nothing has changed since the last report.
void StreamExecutor::report_transfer(double since_s) {
  if (!marks_.used()) return;
  const bool waits = !marks_.changed();
  for (const CallId c : program().schedule.ids()) {
    const Call& call = program().call(c);
    const std::vector<PreparedOp>& ops = bound_.ops(c);
    for (size_t i = 0; i < ops.size(); ++i) {
      const int64_t number = number_of(c, i);
      const Queue queue = queue_of(program(), c, ops[i]);
      if (!ops[i].is_on_stream() || !marks_.is_started(queue, number) ||
          marks_.is_done(queue, number))
        continue;
      const comm::Communicator& channel = *ops[i].bound.channel;
      report_.started(c, ops[i], waits);
      if (!waits) return;
      Waiting w = {c, ops[i].op->origin, channel.ranks(), {}, since_s};
      if (is_message(*ops[i].op)) {
        const int64_t peer = bound_.communicators().peer(channel, call.comm.peer);
        w.missing = {channel.ranks()[peer]};
      }
      return waiting_.set(std::move(w));
    }
  }
}

// Enqueues all calls. Returns false if a capture has too many nodes.
bool StreamExecutor::enqueue(Enqueue how) {
  if (how == Enqueue::kTimed) times_.start();
  marks_.clear(queues_.main());
  queues_.fork(CallId(0));
  for (const CallId c : program().schedule.ids()) {
    if (how == Enqueue::kCapture && !cut_full_graph(c)) return false;
    begin_call(c, how);
    std::vector<PreparedOp>& ops = bound_.ops(c);
    for (size_t i = 0; i < ops.size(); ++i) {
      PreparedOp& op = ops[i];
      enqueue_waits(group_before(ops, i), how, [&] { queues_.before_op(c, i); });
      report_.started(c, op, op.bound.channel != nullptr);
      const double began = report_.now_s();
      if (op.bound.channel && op.bound.channel->is_on_stream())
        exchange_on_stream(c, op, how);
      else if (op.bound.channel)
        exchange_on_host(op);
      else if (op.binding->run)
        op.binding->run(op.bound);
      if (report_.observed()) synchronise(op.bound.launch.stream);
      report_.finished(c, op.bound, began);
      queues_.after_op(c, i);
    }
    enqueue_waits(last_inner_group(ops), how, [&] { queues_.after(c); });
  }
  queues_.join();
  return true;
}

// Makes the stream of the call wait for the calls that it comes after.
void StreamExecutor::begin_call(CallId c, Enqueue how) {
  const Program& p = program();
  const auto queue_of_call = [&](CallId y) { return p.segment(p.call(y)).queue; };
  GroupRef group;  // the group whose transfers the compute queue waits for
  if (queue_of_call(c) == Queue::kCompute)
    for (const CallId y : p.call(c).after)
      if (queue_of_call(y) != Queue::kCompute) group = bound_.group_of_call(y);
  enqueue_waits(group, how, [&] { queues_.before(c); });
  const bool waits = how != Enqueue::kCapture && (!graphs_wanted() || updates_host_);
  if (waits && hooks_.before_update && bound_.updates(c)) hooks_.before_update();
  bound_.bind(c);
}

// Enqueues waits of the compute queue for transfers of the group. An empty group is not timed.
template <class Waits>
void StreamExecutor::enqueue_waits(const GroupRef& group, Enqueue how, const Waits& waits) {
  const bool timed = how == Enqueue::kTimed && !group.empty();
  if (timed) times_.begin(queues_.main(), TransferTimes::What::kWait, group);
  waits();
  if (timed) times_.end(queues_.main());
}

void StreamExecutor::exchange_on_stream(CallId c, PreparedOp& op, Enqueue how) {
  comm::Communicator& channel = *op.bound.channel;
  const Stream s = op.bound.launch.stream;
  const Queue queue = queue_of(program(), c, op);
  const bool marked = op.is_on_stream();
  const int64_t number = number_of(c, &op - bound_.ops(c).data());
  if (channel.needs_order()) queues_.before_transfer(s);
  if (marked) marks_.started(s, queue, number);
  if (marked && how == Enqueue::kTimed)
    times_.begin(
        s, queue == Queue::kCompute ? TransferTimes::What::kBoth : TransferTimes::What::kTransfer,
        group_of(*op.op));
  channel.use(s);
  start_transfer(op.bound);
  finish_transfer(op.bound);
  if (marked && how == Enqueue::kTimed) times_.end(s);
  if (marked) marks_.done(s, queue, number);
  if (channel.needs_order()) queues_.after_transfer(s);
}

void StreamExecutor::exchange_on_host(PreparedOp& op) {
  const double began = hooks_.time_s();
  exchange_through_host(bound_.arena(), op);
  const double took = hooks_.time_s() - began;
  time_.total_s += took;
  time_.exposed_s += took;
  time_.exposed_by[group_of(*op.op)] += took;
}

}  // namespace tessera::runtime
