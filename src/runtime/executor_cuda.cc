// A run on a CUDA device (docs/decisions/cuda.md): calls are enqueued in issue order, each in the
// stream of its queue; from the third run on they are one launch of a graph.
#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <thread>

#include "base/error.h"
#include "comm/idle.h"
#include "ir/state.h"
#include "runtime/executor.h"

namespace tessera {
namespace {

// What the host writes before a run, and what it reads after it.
bool is_sent(Role r) { return r == Role::kBatch || r == Role::kStep; }
bool is_fetched(Role r) {
  return r == Role::kReport || r == Role::kActivation || r == Role::kStream;
}

}  // namespace

void Executor::prepare_device() {
  if (options_.mirror == nullptr) return;
  CHECK(library_.on_cuda(), "a mirror of an arena of the host");
  if (options_.poison)
    throw Error("compiler.poison looks into the memory of the host: use it with run.device=cpu.");
  queues_.emplace(program_);
  read_.emplace();
  fetched_results_.emplace();
  for (const Frame& f : program_.frames) {
    if (!f.state) continue;
    const Role role = program_[program_.kind(f.kind).values.at(0)].role;
    const TensorView frame = {arena_ + f.offset, DType::kU8, {program_.kind(f.kind).bytes}};
    if (is_sent(role)) sent_.push_back(mirrored(frame));
    if (is_fetched(role)) fetched_.push_back(frame);
  }
  if (has("step")) host_step_ = view(named("step")).as<double>();
}

std::vector<TensorView> Executor::exchanged() const {
  std::vector<TensorView> all = sent_;
  for (const TensorView& t : fetched_) all.push_back(mirrored(t));
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
  return whole_or_none({host.as<std::byte>(), host.bytes()}, pinned_);
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
  copy_to_host(queues_->main(), host);
  synchronise(queues_->main());
  return host;
}

int64_t Executor::first_non_finite(const TensorView& t) const {
  int64_t first = -1;
  if (!queues_ || !in_arena(t.data)) {
    kernels::cpu_kernels().first_non_finite({}, flat(t), nullptr, &first);
    return first;
  }
  const kernels::Kernels& k = library_.kernels();
  const int64_t partials = k.workspace.first_non_finite(t.elements());
  const DeviceBuffer memory("the search for the first bad value",
                            partials + static_cast<int64_t>(sizeof(first)));
  std::byte* const found = memory.data() + partials;
  k.first_non_finite(queues_->main(), flat(t), memory.data(), reinterpret_cast<int64_t*>(found));
  copy_in_stream(queues_->main(), &first, found, sizeof(first));
  synchronise(queues_->main());
  return first;
}

void Executor::send(const TensorView& host) const {
  if (options_.mirror == nullptr) return;
  copy_to_device(queues_->main(), host);
  synchronise(queues_->main());
}

bool Executor::can_be_ahead() const {
  return host_step_ && graph_.ready() && graph_wanted() && host_step_[kSeed] == graph_seed_;
}

void Executor::start() {
  CHECK(can_be_ahead() && under_way_ < 2, "a run that starts behind {} others", under_way_);
  send_frames();
  if (under_way_ > 0) carry_skip();
  graph_.launch(queues_->main());
  if (under_way_++ == 0) fetch_results();
}

// The results of a run that was ahead are fetched when the host has read those of the one before.
void Executor::finish() {
  CHECK(under_way_ > 0, "no run is under way");
  wait_for(*fetched_results_);
  if (--under_way_ > 0) fetch_results();
}

void Executor::wait_until_read() const {
  if (under_way_ > 0) read_->synchronise();
}

void Executor::send_frames() {
  for (const TensorView& t : sent_) copy_to_device(queues_->main(), t);
  read_->record(queues_->main());
}

void Executor::fetch_results() {
  for (const TensorView& t : fetched_) copy_to_host(queues_->main(), mirrored(t));
  fetched_results_->record(queues_->main());
}

// Behind a step that was skipped, whose report the host has not seen, nothing may be updated.
void Executor::carry_skip() const {
  const auto of_device = [&](const char* name, int slot) {
    return on_device(view(named(name))) + slot * static_cast<int64_t>(sizeof(double));
  };
  copy_in_stream(queues_->main(), of_device("step", kSkipBefore), of_device("report", kSkip),
                 sizeof(double));
}

void Executor::run_on_device() {
  CHECK(under_way_ == 0, "{} runs are under way", under_way_);
  const bool observed = static_cast<bool>(*observe_);
  send_frames();
  const double seed = host_step_ ? host_step_[kSeed] : 0;  // it is in the keys of roundings
  if (!graph_wanted() || observed || direct_runs_ == 0) {
    enqueue();
    if (!observed) ++direct_runs_;  // the device loads kernels when they first run
  } else {
    if (!graph_.ready() || seed != graph_seed_) {
      capture();
      graph_seed_ = seed;
    }
    graph_.launch(queues_->main());
  }
  fetch_results();
  wait_for(*fetched_results_);
}

void Executor::capture() {
  graph_.begin(queues_->main());
  try {
    enqueue();
  } catch (const Error&) {
    graph_.give_up(queues_->main());  // else nothing can be freed any more
    throw;
  }
  graph_.end(queues_->main());
}

// A device that waits for a rank that is gone would wait for ever: the channels are asked
// meanwhile.
void Executor::wait_for(const CudaEvent& event) {
  if (used_.empty()) return event.synchronise();
  Idle idle;
  try {
    while (!event.is_over()) {
      for (const auto& use : used_) use.second->progress();
      idle.pause();
    }
  } catch (const Error&) {
    // What waits on the device for who is gone must end before its memory can be given back. NCCL's
    // abort waits for the graphs that its kernels stand in, and these wait for the kernels of all
    // channels: so the graph goes first, and all channels go at once.
    std::destroy_at(&graph_);
    std::construct_at(&graph_);
    std::set<Communicator*> channels;
    for (const auto& use : used_) channels.insert(use.second);
    std::vector<std::jthread> aborts;
    for (Communicator* channel : channels) aborts.emplace_back([channel] { channel->abandon(); });
    throw;
  }
}

void Executor::enqueue() {
  queues_->fork();
  for (CallId c = 0; c < static_cast<CallId>(program_.schedule.size()); ++c) {
    queues_->before(c);
    if (!graph_wanted() && before_update_ &&
        updates_[static_cast<size_t>(program_.call(c).segment)])
      before_update_();
    begin(c);
    for (PreparedOp& op : ops_of(c)) {
      announce(c, op, op.bound.channel != nullptr);
      const double began = *observe_ ? now_s() : 0;
      if (op.bound.channel && op.bound.channel->is_on_stream())
        exchange_on_stream(op);
      else if (op.bound.channel)
        exchange_through_host(op);
      else if (op.run)
        op.run(op.bound);
      if (*observe_) synchronise(op.bound.stream);
      observe(c, op.bound, began);
    }
    queues_->after(c);
  }
  queues_->join();
}

void Executor::exchange_on_stream(PreparedOp& op) {
  op.bound.channel->use(op.bound.stream);
  start_communication(op.bound);
  finish_communication(op.bound);
}

// A transfer of the host's communicator: its operands go through the mirror, in which they stand
// to each other as in the arena. Ranks wait for each other in issue order, which cannot cycle.
void Executor::exchange_through_host(PreparedOp& op) {
  BoundOp host = op.bound;
  const double began = now_s();
  for (size_t i = 0; i < op.op->inputs.size(); ++i) host.in[i] = fetch_in(op.bound, op.bound.in[i]);
  // A transfer may write a piece of its output.
  for (size_t i = 0; i < op.op->outputs.size(); ++i)
    host.out[i] = fetch_in(op.bound, op.bound.out[i]);
  if (host.workspace)
    host.workspace = options_.mirror + (static_cast<std::byte*>(host.workspace) - arena_);
  host.kernels = &kernels::cpu_kernels();
  host.stream = {};
  synchronise(op.bound.stream);
  const Ticket t = start_communication(host);
  Idle idle;
  while (!host.channel->done(t))
    if (host.channel->progress())
      idle.moved();
    else
      idle.pause();
  finish_communication(host);
  for (size_t i = 0; i < op.op->outputs.size(); ++i) copy_to_device(op.bound.stream, host.out[i]);
  const double took = now_s() - began;
  time_.total_s += took;
  time_.exposed_s += took;
  time_.exposed_by[group_named(*op.op)] += took;
}

TensorView Executor::fetch_in(const BoundOp& b, const TensorView& t) const {
  const TensorView host = mirrored(t);
  copy_to_host(b.stream, host);
  return host;
}

}  // namespace tessera
