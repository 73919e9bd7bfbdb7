#include "runtime/device_queues.h"

namespace tessera {

DeviceQueues::DeviceQueues(const Program& program)
    : program_(program), event_of_(program.schedule.size(), kNone) {
  streams_[static_cast<size_t>(Queue::kCompute)] = std::make_unique<GpuStream>();
  for (const CallId c : program.schedule.ids()) {
    auto& stream = streams_[static_cast<size_t>(queue_of(c))];
    if (!stream) stream = std::make_unique<GpuStream>();
    for (const CallId y : program.call(c).after) {
      int64_t& event = event_of_[y];
      if (queue_of(y) == queue_of(c) || event != kNone) continue;
      event = static_cast<int64_t>(events_.size());
      events_.emplace_back();
    }
  }
  joins_.resize(kQueues);
}

void DeviceQueues::fork(CallId first) {
  first_ = first;
  transferred_ = false;
  fork_.record(main());
  for (size_t q = 1; q < streams_.size(); ++q)
    if (streams_[q]) fork_.make_wait(streams_[q]->get());
}

void DeviceQueues::before(CallId c) {
  for (const CallId y : program_.call(c).after)
    if (const int64_t event = event_of_[y];
        event != kNone && queue_of(y) != queue_of(c) && y >= first_)
      events_[static_cast<size_t>(event)].make_wait(stream(queue_of(c)));
}

void DeviceQueues::after(CallId c) {
  if (const int64_t event = event_of_[c]; event != kNone)
    events_[static_cast<size_t>(event)].record(stream(queue_of(c)));
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

}  // namespace tessera
