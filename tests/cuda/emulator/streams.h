// Streams, events and graphs of the emulated device. Work runs as late as the rules allow, and of
// the streams that could go on a drawn one does: what is not held by an event comes in an order
// that nobody meant, so that tests see it. What a capture forbids is refused as the driver does.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "cuda_runtime.h"

namespace cuda_emulator {

// Behind what stands in the stream; of a capture, a node of its graph.
cudaError_t enqueue(cudaStream_t s, std::function<void()> work);
cudaError_t finish(cudaStream_t s);  // until nothing stands in it
void finish_all();
bool is_capturing();
bool is_captured(cudaStream_t s);

// Memory as the driver knows it.
enum class Place { kDevice, kPinned, kPageable, kMixed };
Place place_of(const void* p, size_t bytes);

}  // namespace cuda_emulator
