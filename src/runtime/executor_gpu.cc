// A run on a GPU (docs/decisions/cuda.md): calls are enqueued in issue order, each in the
// stream of its queue; later runs are launches of graphs.
#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <thread>

#include "base/error.h"
#include "comm/idle.h"
#include "ir/rule.h"
#include "ir/state.h"
#include "runtime/executor.h"

namespace tessera {
namespace {

// What the host writes before a run, and what it reads after it.
bool is_sent(Role r) { return is_batch(r) || r == Role::kStep; }
bool is_fetched(Role r) {
  return r == Role::kReport || r == Role::kLogits || r == Role::kActivation || r == Role::kStream;
}

// A wait is reported each time this many sleeps (some milliseconds) have passed.
constexpr int64_t kLongWait = 100;

// The number of a transfer for DeviceMarks: rises in issue order.
int64_t number_of(CallId c, size_t op) {
  constexpr int64_t kMostOps = 1 << 20;
  return int64_t{c.number()} * kMostOps + static_cast<int64_t>(op) + 1;
}

}  // namespace

void Executor::prepare_device() {
  if (options_.mirror == nullptr) return;
  CHECK(kernels_.on_gpu(), "a mirror of an arena of the host");
  if (options_.poison)
    throw Error("compiler.poison looks into the memory of the host: use it with run.device=cpu.");
  device_.emplace(program_);
  for (const Frame& f : program_.frames) {
    if (!f.state) continue;
    const Role role = program_[program_.kind(f.kind).values.at(0)].role;
    const TensorView frame = {arena_ + f.offset, DType::kU8, {program_.kind(f.kind).bytes}};
    if (is_sent(role)) device_->sent.push_back(mirrored(frame));
    if (is_fetched(role)) device_->fetched.push_back(frame);
  }
  if (has(Role::kStep)) host_step_ = view(only(Role::kStep)).as<double>();
}

std::vector<TensorView> Executor::exchanged() const {
  std::vector<TensorView> all = device_->sent;
  for (const TensorView& t : device_->fetched) all.push_back(mirrored(t));
  return all;
}

// Where the host brings bytes from rank to rank it must run along.
bool Executor::graph_wanted() const {
  return options_.graphs && std::all_of(used_.begin(), used_.end(),
                                        [](const auto& use) { return use.second->is_on_stream(); });
}

// Or in memory of the host: what is offloaded.
bool Executor::in_arena(const void* p) const {
  const std::less<const void*> before;
  return !before(p, arena_) && before(p, arena_ + program_.bytes);
}

TensorView Executor::mirrored(const TensorView& t) const {
  if (options_.mirror == nullptr || !in_arena(t.data)) return t;
  return {options_.mirror + (t.as<std::byte>() - arena_), t.dtype, t.shape};
}

std::byte* Executor::on_device(const TensorView& host) const {
  return arena_ + (host.as<std::byte>() - options_.mirror);
}

std::vector<MemoryRange> Executor::pieces_of(const TensorView& host) const {
  return whole_or_none({host.as<std::byte>(), host.bytes()}, device_->pinned);
}

void Executor::copy_to_host(Stream s, const TensorView& host) const {
  for (const MemoryRange& r : pieces_of(host))
    copy_in_stream(s, r.data, on_device({r.data, DType::kU8, {r.bytes}}), r.bytes);
}

void Executor::copy_to_device(Stream s, const TensorView& host) const {
  for (const MemoryRange& r : pieces_of(host))
    copy_in_stream(s, on_device({r.data, DType::kU8, {r.bytes}}), r.data, r.bytes);
}

TensorView Executor::fetch(const TensorView& t) const {
  const TensorView host = mirrored(t);
  if (host.data == t.data) return t;
  if (before_update_) before_update_();  // who still reads an earlier copy
  copy_to_host(device_->queues.main(), host);
  synchronise(device_->queues.main());
  return host;
}

int64_t Executor::first_non_finite(const TensorView& t) const {
  int64_t first = -1;
  if (!device_ || !in_arena(t.data)) {
    kernels::launch(kernels::Cpu(), {}, kernels::FirstNonFiniteArgs{flat(t), &first});
    return first;
  }
  const auto& kernel = kernels_.table().of<kernels::FirstNonFiniteArgs>();
  const int64_t partials = kernel.workspace_bytes({flat(t), nullptr}, 1);
  const DeviceBuffer memory("the search for the first bad value",
                            partials + static_cast<int64_t>(sizeof(first)));
  std::byte* const found = memory.data() + partials;
  kernel.run({device_->queues.main(), memory.data()}, {flat(t), reinterpret_cast<int64_t*>(found)});
  copy_in_stream(device_->queues.main(), &first, found, sizeof(first));
  synchronise(device_->queues.main());
  return first;
}

void Executor::send(const TensorView& host) const {
  if (options_.mirror == nullptr) return;
  copy_to_device(device_->queues.main(), host);
  synchronise(device_->queues.main());
}

bool Executor::can_be_ahead() const {
  return host_step_ && graph_wanted() && !device_->graphs.empty() && !device_->timing_due() &&
         host_step_[kSeed] == device_->graph_seed;
}

// The results of the run before are fetched first: the host has read those of the one before it,
// and this one writes to where they are.
void Executor::start() {
  DeviceState& d = *device_;
  CHECK(can_be_ahead() && d.under_way < 2, "a run that starts after {} others", d.under_way);
  if (d.under_way > 0) fetch_results();
  send_frames();
  if (d.under_way > 0) carry_skip();
  launch();
  ++d.under_way;
  ++d.runs;
}

// Nothing that is enqueued here or before writes to what the caller now reads: the mirror has one
// place for results.
void Executor::finish() {
  DeviceState& d = *device_;
  CHECK(d.under_way > 0, "no run is under way");
  if (!d.fetching) fetch_results();
  wait_for(d.fetched_results);
  d.fetching = false;
  --d.under_way;
  time_ = d.measured;
  count_launch();
}

void Executor::wait_until_read() const {
  if (device_ && device_->under_way > 0) device_->read.synchronise();
}

void Executor::send_frames() {
  for (const TensorView& t : device_->sent) copy_to_device(device_->queues.main(), t);
  device_->read.record(device_->queues.main());
}

void Executor::fetch_results() {
  for (const TensorView& t : device_->fetched) copy_to_host(device_->queues.main(), mirrored(t));
  device_->fetched_results.record(device_->queues.main());
  device_->fetching = true;
}

// Behind a step that was skipped, whose report the host has not seen, nothing may be updated.
void Executor::carry_skip() const {
  const auto of_device = [&](Role role, int slot) {
    return on_device(view(only(role))) + slot * static_cast<int64_t>(sizeof(double));
  };
  copy_in_stream(device_->queues.main(), of_device(Role::kStep, kSkipBefore),
                 of_device(Role::kReport, kSkip), sizeof(double));
}

void Executor::run_on_device() {
  DeviceState& d = *device_;
  CHECK(d.under_way == 0, "{} runs are under way", d.under_way);
  const bool observed = static_cast<bool>(*observe_);
  send_frames();
  const double seed = host_step_ ? host_step_[kSeed] : 0;  // it is in the keys of roundings
  const bool timed = !observed && graph_wanted() && d.timing_due();
  // The device loads kernels when they first run, so the first run is never a graph.
  const bool direct = !graph_wanted() || observed || timed || d.runs == 0 || d.too_many_nodes;
  if (!direct && (d.graphs.empty() || seed != d.graph_seed) && capture()) d.graph_seed = seed;
  if (direct || d.graphs.empty()) {
    enqueue(timed ? Enqueue::kTimed : Enqueue::kPlain);
  } else {
    launch();
    count_launch();
  }
  if (!observed) ++d.runs;
  fetch_results();
  wait_for(d.fetched_results);
  d.fetching = false;
  if (timed) {
    d.measured = {};
    d.times.collect(d.measured);
  }
  if (!d.marks.used()) return;
  time_.total_s = d.measured.total_s;
  time_.exposed_s = d.measured.exposed_s;
  time_.exposed_by = d.measured.exposed_by;
}

void Executor::launch() {
  for (const GpuGraph& g : device_->graphs) g.launch(device_->queues.main());
}

void Executor::count_launch() {
  for (const auto& [group, bytes] : device_->graph_bytes) time_.bytes_sent[group] += bytes;
}

std::map<GroupRef, int64_t> Executor::bytes_sent() const {
  std::map<GroupRef, int64_t> sent;
  for (const auto& [group, channel] : used_) sent[group] += channel->bytes_sent();
  return sent;
}

// Captures the run as graphs, and returns whether it is graphs now. A capture sends nothing, so its
// bytes are not counted.
bool Executor::capture() {
  DeviceState& d = *device_;
  const std::map<GroupRef, int64_t> before = bytes_sent();
  bool whole = false;
  d.graphs.clear();
  d.graphs.emplace_back().begin(d.queues.main());
  try {
    whole = enqueue(Enqueue::kCapture);
    if (whole) d.graphs.back().end(d.queues.main());
  } catch (const Error&) {
    d.graphs.clear();  // closes the capture: else nothing can be freed any more
    throw;
  }
  d.graph_bytes = bytes_sent();
  for (auto& [group, bytes] : d.graph_bytes) {
    bytes -= before.at(group);
    time_.bytes_sent[group] -= bytes;
  }
  const int64_t nodes =
      std::accumulate(d.graphs.begin(), d.graphs.end(), int64_t{0},
                      [](int64_t sum, const GpuGraph& g) { return sum + g.nodes(); });
  d.too_many_nodes = !whole || nodes > d.most_nodes;
  const auto graphs = std::ssize(d.graphs);
  if (d.too_many_nodes) d.graphs.clear();
  if (captured_)
    captured_(
        d.too_many_nodes
            ? fmt::format("graphs    none for {}: it has more than {} nodes, so its calls are "
                          "enqueued one by one",
                          program_.name, d.most_nodes)
            : fmt::format("graphs    {} nodes of {} in {} graph{}", nodes, program_.name, graphs,
                          graphs > 1 ? "s" : ""));
  return !d.too_many_nodes;
}

// Called before each call of a capture: ends a full graph and begins the next, whose calls come
// after all earlier ones. Ranks may be cut at different calls, because calls in issue order can
// always run one by one. Returns false if there are too many nodes.
bool Executor::cut_graph(CallId next) {
  DeviceState& d = *device_;
  if (d.graphs.back().captured_nodes() < d.most_graph_nodes) return true;
  d.queues.join();
  d.graphs.back().end(d.queues.main());
  int64_t nodes = 0;
  for (const GpuGraph& g : d.graphs) nodes += g.nodes();
  if (nodes > d.most_nodes) return false;
  d.graphs.emplace_back().begin(d.queues.main());
  d.queues.fork(next);
  return true;
}

// A device that waits for a rank that is gone would wait for ever: the channels are asked
// meanwhile.
void Executor::wait_for(const GpuEvent& event) {
  if (used_.empty()) return event.synchronise();
  const double since = now_s();
  Idle idle;
  try {
    while (!event.is_over()) {
      for (const auto& use : used_) use.second->progress();
      if (idle.sleeps() % kLongWait == 1) tell_transfer(since);
      idle.pause();
    }
  } catch (const Error&) {
    abandon();
    throw;
  }
  if (device_->marks.used()) tell(kNone, nullptr, 0);
}

// Reports the transfer that the device is at: the first in issue order that has started and is not
// done. It waits for others if nothing has changed since the last time.
void Executor::tell_transfer(double since_s) {
  DeviceState& d = *device_;
  if (!d.marks.used()) return;
  const int64_t sum = d.marks.sum();
  const bool waits = std::exchange(d.marks_seen, sum) == sum;
  for (const CallId c : program_.schedule.ids()) {
    const Call& call = program_.call(c);
    const Queue queue = program_.segment(call).queue;
    const std::vector<PreparedOp>& ops = ops_of(c);
    for (size_t i = 0; i < ops.size(); ++i) {
      const int64_t number = number_of(c, i);
      if (!ops[i].is_on_stream() || !d.marks.is_started(queue, number) ||
          d.marks.is_done(queue, number))
        continue;
      const Communicator& channel = *ops[i].bound.channel;
      announce(c, ops[i], waits);
      if (!waits) return;
      Waiting w = {c, ops[i].op->origin, channel.ranks(), {}, since_s};
      if (is_message(*ops[i].op))
        w.missing = {channel.ranks()[static_cast<size_t>(channels_.peer(channel, call.wire.peer))]};
      const std::lock_guard lock(waiting_mutex_);
      waiting_ = std::move(w);
      return;
    }
  }
}

// Kernels that wait for a rank that has ended must stop before their memory can be freed. NCCL's
// abort waits for the graphs that its kernels are in, and these wait for the kernels of all
// channels: so the graphs go first, and all channels go at once.
void Executor::abandon() {
  device_->graphs.clear();
  std::set<Communicator*> channels;
  for (const auto& use : used_) channels.insert(use.second);
  std::vector<std::jthread> aborts;
  for (Communicator* channel : channels) aborts.emplace_back([channel] { channel->abandon(); });
}

// Returns false if a capture has too many nodes.
bool Executor::enqueue(Enqueue how) {
  DeviceState& d = *device_;
  if (how == Enqueue::kTimed) d.times.start();
  d.marks.clear(d.queues.main());
  d.queues.fork(CallId(0));
  for (const CallId c : program_.schedule.ids()) {
    if (how == Enqueue::kCapture && !cut_graph(c)) return false;
    begin_call(c, how);
    for (PreparedOp& op : ops_of(c)) {
      announce(c, op, op.bound.channel != nullptr);
      const double began = *observe_ ? now_s() : 0;
      if (op.bound.channel && op.bound.channel->is_on_stream())
        exchange_on_stream(c, op, how);
      else if (op.bound.channel)
        exchange_through_host(op);
      else if (op.binding->run)
        op.binding->run(op.bound);
      if (*observe_) synchronise(op.bound.launch.stream);
      observe(c, op.bound, began);
    }
    d.queues.after(c);
  }
  d.queues.join();
  return true;
}

// Makes the stream of the call wait for the calls that it comes after.
void Executor::begin_call(CallId c, Enqueue how) {
  DeviceState& d = *device_;
  const Call& call = program_.call(c);
  GroupRef group;  // whose transfers the compute queue waits for
  if (how == Enqueue::kTimed && program_.segment(call).queue == Queue::kCompute)
    for (const CallId y : call.after)
      if (program_.segment(program_.call(y)).queue != Queue::kCompute)
        group = group_of_call(y, nullptr);
  if (!group.empty()) d.times.begin(d.queues.main(), TransferTimes::What::kWait, group);
  d.queues.before(c);
  if (!group.empty()) d.times.end(d.queues.main());
  if (!graph_wanted() && before_update_ && updates_[call.segment]) before_update_();
  begin(c);
}

void Executor::exchange_on_stream(CallId c, PreparedOp& op, Enqueue how) {
  DeviceState& d = *device_;
  Communicator& channel = *op.bound.channel;
  const Stream s = op.bound.launch.stream;
  const Queue queue = program_.segment(program_.call(c)).queue;
  const bool marked = op.is_on_stream();
  const int64_t number = number_of(c, static_cast<size_t>(&op - ops_of(c).data()));
  if (channel.needs_order()) d.queues.before_transfer(s);
  if (marked) d.marks.started(s, queue, number);
  if (marked && how == Enqueue::kTimed)
    d.times.begin(
        s, queue == Queue::kCompute ? TransferTimes::What::kBoth : TransferTimes::What::kTransfer,
        group_of(*op.op));
  channel.use(s);
  start_transfer(op.bound);
  finish_transfer(op.bound);
  if (marked && how == Enqueue::kTimed) d.times.end(s);
  if (marked) d.marks.done(s, queue, number);
  if (channel.needs_order()) d.queues.after_transfer(s);
}

// A transfer of the host's communicator: its operands go through the mirror, in which they stand
// to each other as in the arena. Ranks wait for each other in issue order, which cannot cycle.
void Executor::exchange_through_host(PreparedOp& op) {
  BoundOp host = op.bound;
  const double began = now_s();
  for (size_t i = 0; i < op.op->inputs.size(); ++i)
    host.inputs[i] = fetch_in(op.bound, op.bound.inputs[i]);
  // A transfer may write a piece of its output.
  for (size_t i = 0; i < op.op->outputs.size(); ++i)
    host.outputs[i] = fetch_in(op.bound, op.bound.outputs[i]);
  if (std::byte* const workspace = static_cast<std::byte*>(host.launch.workspace))
    host.launch.workspace = options_.mirror + (workspace - arena_);
  host.kernels = &kernels::cpu_kernels();
  host.launch.stream = {};
  synchronise(op.bound.launch.stream);
  const Ticket t = start_transfer(host);
  Idle idle;
  while (!host.channel->done(t))
    if (host.channel->progress())
      idle.moved();
    else
      idle.pause();
  finish_transfer(host);
  for (size_t i = 0; i < op.op->outputs.size(); ++i)
    copy_to_device(op.bound.launch.stream, host.outputs[i]);
  const double took = now_s() - began;
  time_.total_s += took;
  time_.exposed_s += took;
  time_.exposed_by[group_of(*op.op)] += took;
}

TensorView Executor::fetch_in(const BoundOp& b, const TensorView& t) const {
  const TensorView host = mirrored(t);
  copy_to_host(b.launch.stream, host);
  return host;
}

}  // namespace tessera
