// What the rest relies on of a device's memory, streams and graphs.
#include "tests/cuda/device.h"
#include "base/error.h"

namespace tessera::testing {
namespace {

constexpr int64_t kBytes = 1 << 20;

class CudaDevice : public OnGpu {
 protected:
  static std::vector<std::byte> fetched(Stream s, const void* from, int64_t bytes) {
    std::vector<std::byte> got(static_cast<size_t>(bytes));
    copy_in_stream(s, got.data(), from, bytes);
    synchronise(s);
    return got;
  }
  static void expect_all(const std::vector<std::byte>& got, int byte) {
    for (const std::byte b : got) ASSERT_EQ(b, std::byte{static_cast<uint8_t>(byte)});
  }
};

// Whoever writes to it first is not overtaken by what makes it zero.
TEST_F(CudaDevice, MemoryIsZeroFromTheStart) {
  const GpuStream stream;
  const DeviceBuffer buffer("a buffer", kBytes);
  expect_all(fetched(stream.get(), buffer.data(), kBytes), 0);
  const DeviceBuffer another("another", kBytes);
  fill_in_stream(stream.get(), another.data(), 7, kBytes);
  const GpuStream later;
  synchronise(stream.get());
  expect_all(fetched(later.get(), another.data(), kBytes), 7);
}

// A copy of pages of which some are pinned is refused; cut, it is not.
TEST_F(CudaDevice, CopiesArePinnedOrNot) {
  const GpuStream stream;
  const DeviceBuffer buffer("a buffer", kBytes);
  const HostBuffer host("the host's", kBytes);
  const MemoryRange middle = {host.data() + 3 * kPageBytes + 100, 2 * kPageBytes};
  const PinnedPages pinned("a test", {&middle, 1});
  fill_in_stream(stream.get(), buffer.data(), 9, kBytes);
  EXPECT_THROW(
      copy_in_stream(stream.get(), host.data() + 4 * kPageBytes, buffer.data(), kBytes / 2), Error);
  for (const MemoryRange& r : whole_or_none({host.data(), kBytes}, pinned.pages()))
    copy_in_stream(stream.get(), r.data, buffer.data() + (r.data - host.data()), r.bytes);
  synchronise(stream.get());
  expect_all({host.data(), host.data() + kBytes}, 9);
}

// A stream goes on when what it waits for is over, directly and as a graph.
TEST_F(CudaDevice, EventsHoldStreams) {
  const DeviceBuffer buffer("a buffer", kBytes), copy("its copy", kBytes);
  const GpuStream first, second;
  GpuEvent begun, written, over;
  const auto enqueue = [&](int byte) {
    begun.record(first.get());
    begun.make_wait(second.get());
    fill_in_stream(first.get(), buffer.data(), byte, kBytes);
    written.record(first.get());
    written.make_wait(second.get());
    copy_in_stream(second.get(), copy.data(), buffer.data(), kBytes);
    over.record(second.get());
    over.make_wait(first.get());
  };
  for (int byte = 1; byte < 5; ++byte) {
    enqueue(byte);
    synchronise(first.get());
    expect_all(fetched(first.get(), copy.data(), kBytes), byte);
  }
  GpuGraph graph;
  graph.begin(first.get());
  enqueue(77);
  graph.end(first.get());
  EXPECT_EQ(graph.nodes(), 2);
  expect_all(fetched(first.get(), copy.data(), kBytes), 4);  // nothing ran yet
  graph.launch(first.get());
  synchronise(first.get());
  expect_all(fetched(first.get(), copy.data(), kBytes), 77);
}

// What does not come back, or waits, is refused; after giving up all is as before.
TEST_F(CudaDevice, CapturesAreClosed) {
  const DeviceBuffer buffer("a buffer", kBytes);
  const GpuStream first, second;
  GpuEvent begun;
  GpuGraph graph;
  graph.begin(first.get());
  begun.record(first.get());
  begun.make_wait(second.get());
  fill_in_stream(second.get(), buffer.data(), 5, kBytes);
  EXPECT_THROW(graph.end(first.get()), Error);
  graph.begin(first.get());
  fill_in_stream(first.get(), buffer.data(), 5, kBytes);
  EXPECT_THROW(synchronise(first.get()), Error);
  graph.give_up();
  EXPECT_FALSE(graph.ready());
  fill_in_stream(first.get(), buffer.data(), 6, kBytes);
  expect_all(fetched(first.get(), buffer.data(), kBytes), 6);
}

}  // namespace
}  // namespace tessera::testing
