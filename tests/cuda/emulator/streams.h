// Streams, events and graphs of the emulated device. Work runs as late as the rules allow, and of
// the streams that could go on a drawn one does: what is not held by an event comes in an order
// that nobody meant, so that tests see it. What a capture forbids is refused as the driver does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "gpu_runtime.h"

namespace cuda_emulator {

// The behavior of the device that a test asks for.
struct DeviceConduct {
  bool early = false;             // streams run as early as they may, instead of as late
  int number = 1;                 // the device's own: its UUID
  size_t most_pinned = SIZE_MAX;  // ranges; more are an error
  gpuError_t last_error = gpuSuccess;
};
extern DeviceConduct device_conduct;

// A place in the order of a stream's work, and whether all that is enqueued in `s` from now on
// comes after it by the order of streams, by events or because the host has waited.
struct Moment {
  int64_t stream = 0, count = 0;
};
Moment last_of(gpuStream_t s);
bool comes_after(gpuStream_t s, const Moment& m);

// Behind what stands in the stream; of a capture, a node of its graph.
gpuError_t enqueue(gpuStream_t s, std::function<void()> work);
// Work that is retried until it reports that it is done; other streams continue meanwhile.
gpuError_t enqueue_until(gpuStream_t s, std::function<bool()> attempt);
gpuError_t finish(gpuStream_t s);  // until nothing stands in it
void finish_all();
bool is_capturing();
bool is_captured(gpuStream_t s);

// Memory as the driver knows it.
enum class Place { kDevice, kPinned, kPageable, kMixed };
Place place_of(const void* p, size_t bytes);

}  // namespace cuda_emulator
