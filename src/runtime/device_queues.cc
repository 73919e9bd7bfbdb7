// The streams of a device, one per queue, and the events between them. A run forks all streams from
// the compute stream and joins them at the end, as graph capture requires; a wait between two
// queues is one event, recorded after the call that is waited for.
#include "runtime/device_queues.h"

#include <algorithm>

namespace tessera::runtime {

DeviceQueues::DeviceQueues(const Program& program)
    : program_(program), event_of_(program.schedule.size(), kNone) {
  streams_[static_cast<size_t>(Queue::kCompute)] = std::make_unique<GpuStream>();
  for (const CallId c : program.schedule.ids()) {
    auto& stream = streams_[static_cast<size_t>(queue_of(c))];
    if (!stream) stream = std::make_unique<GpuStream>();
    for (const CallId y : program.call(c).after) {
      int64_t& event = event_of_[y];
      if (queue_of(y) == queue_of(c) || event != kNone) continue;
      event = std::ssize(events_);
      events_.emplace_back();
    }
  }
  for (const SegmentId s : program.segments.ids()) find_inner_queues(s);
  joins_.resize(kQueues);
}

void DeviceQueues::find_inner_queues(SegmentId id) {
  InnerQueues& inner = inner_[inner_.push_back({})];
  const std::vector<Op>& ops = program_.segment(id).ops;
  for (const Op& op : ops) {
    if (!is_inner(op.queue)) continue;
    auto& stream = streams_[static_cast<size_t>(op.queue)];
    if (!stream) stream = std::make_unique<GpuStream>();
    if (std::find(inner.queues.begin(), inner.queues.end(), op.queue) == inner.queues.end())
      inner.queues.push_back(op.queue);
  }
  if (inner.queues.empty()) return;
  inner.event_of.assign(ops.size(), kNone);
  for (const Op& op : ops)
    for (const int32_t j : op.after) {
      int64_t& event = inner.event_of[j];
      if (event != kNone) continue;
      event = std::ssize(events_);
      events_.emplace_back();
    }
}

//   compute   ──●────────────────────●──   fork: the other streams wait for this point
//   data        └──── … ────────┐    │     join: this stream waits for theirs
//   messages    └──── … ────────┴────┘
void DeviceQueues::fork(CallId first) {
  first_ = first;
  transferred_ = false;
  fork_.record(main());
  for (size_t q = 1; q < streams_.size(); ++q)
    if (streams_[q]) fork_.make_wait(streams_[q]->get());
}

void DeviceQueues::before(CallId c) {
  for (const CallId y : program_.call(c).after)
    // Calls before `first_` are in an earlier graph, which is complete when this one starts.
    if (const int64_t event = event_of_[y];
        event != kNone && queue_of(y) != queue_of(c) && y >= first_)
      events_[event].make_wait(stream(queue_of(c)));
  if (inner(c).queues.empty()) return;
  inner_fork_.record(stream(queue_of(c)));
  for (const Queue q : inner(c).queues) inner_fork_.make_wait(stream(q));
}

void DeviceQueues::before_op(CallId c, size_t op) const {
  if (inner(c).queues.empty()) return;
  const Op& o = program_.segment(program_.call(c)).ops[op];
  for (const int32_t j : o.after)
    events_[inner(c).event_of[j]].make_wait(stream(tessera::queue_of(o, queue_of(c))));
}

void DeviceQueues::after_op(CallId c, size_t op) {
  if (inner(c).queues.empty() || inner(c).event_of[op] == kNone) return;
  const Op& o = program_.segment(program_.call(c)).ops[op];
  event(inner(c).event_of[op]).record(stream(tessera::queue_of(o, queue_of(c))));
}

void DeviceQueues::after(CallId c) {
  for (const Queue q : inner(c).queues) {
    joins_[static_cast<size_t>(q)].record(stream(q));
    joins_[static_cast<size_t>(q)].make_wait(stream(queue_of(c)));
  }
  if (const int64_t event = event_of_[c]; event != kNone)
    events_[event].record(stream(queue_of(c)));
}

void DeviceQueues::before_transfer(Stream s) const {
  if (transferred_) transfer_.make_wait(s);
}
void DeviceQueues::after_transfer(Stream s) {
  transfer_.record(s);
  transferred_ = true;
}

void DeviceQueues::join() {
  for (size_t q = 1; q < streams_.size(); ++q) {
    if (!streams_[q]) continue;
    joins_[q].record(streams_[q]->get());
    joins_[q].make_wait(main());
  }
}

void TransferTimes::begin(Stream s, What what, const GroupRef& group) {
  if (used_ == spans_.size()) spans_.emplace_back();
  Span& span = spans_[used_];
  span.what = what;
  span.group = group;
  span.from.record(s);
}

void TransferTimes::end(Stream s) { spans_[used_++].to.record(s); }

void TransferTimes::collect(CommunicationTime& time) const {
  for (size_t i = 0; i < used_; ++i) {
    const Span& span = spans_[i];
    const double seconds = span.to.seconds_since(span.from);
    if (span.what != What::kWait) time.total_s += seconds;
    if (span.what == What::kTransfer) continue;
    time.exposed_s += seconds;
    time.exposed_by[span.group] += seconds;
  }
}

}  // namespace tessera::runtime
