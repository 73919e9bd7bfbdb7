// Progress marks of a device: the last started or finished transfer per queue, written to pinned
// host memory by the stream itself. The host can read them while the stream is blocked in a
// transfer, which events do not show.
#include "runtime/device_marks.h"

#include <utility>

namespace tessera::runtime {
namespace {

constexpr int64_t kStride = 64 / sizeof(int64_t);  // one cache line per mark

}  // namespace

void DeviceMarks::use(Queue queue) {
  if (!used()) {
    memory_ =
        HostBuffer("marks of a device", kQueues * kStride * static_cast<int64_t>(sizeof(int64_t)));
    const MemoryRange all = {memory_.data(), memory_.bytes()};
    pinned_ = PinnedPages("marks of a device", {&all, 1});
  }
  queues_.insert(queue);
}

void DeviceMarks::clear(Stream s) {
  for (const Queue q : queues_) write(s, q, 0);
}

void DeviceMarks::write(Stream s, Queue queue, int64_t number) {
  auto* const words = reinterpret_cast<int64_t*>(memory_.data());
  write_in_stream(s, words + static_cast<int64_t>(queue) * kStride, number);
}

int64_t DeviceMarks::last(Queue queue) const {
  const auto* const words = reinterpret_cast<const volatile int64_t*>(memory_.data());
  return words[static_cast<int64_t>(queue) * kStride];
}

int64_t DeviceMarks::sum() const {
  int64_t sum = 0;
  for (const Queue q : queues_) sum += last(q);
  return sum;
}

bool DeviceMarks::changed() {
  const int64_t now = sum();
  return std::exchange(seen_, now) != now;
}

}  // namespace tessera::runtime
