// The memory of a run on its device, and the host's view of it: offsets are equal on both sides.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "tensor/gpu.h"
#include "tensor/pages.h"
#include "tensor/tensor.h"

namespace tessera {

class Arena {
 public:
  virtual ~Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* data() const { return data_; }  // as kernels address it
  int64_t bytes() const { return bytes_; }
  bool contains(const void* p) const {
    const std::less<const void*> before;
    return !before(p, data_) && before(p, data_ + bytes_);
  }

  // Returns where the host addresses the same bytes. A view of other memory is returned as it is.
  virtual TensorView host(const TensorView& device) const = 0;
  // Enqueues the copy of the host's bytes to the device; `host` is a view that host() returned.
  // Does nothing for a view of other memory.
  virtual void upload(Stream stream, const TensorView& host) const = 0;
  // Enqueues the copy of the device's bytes to the host. Returns host(device).
  virtual TensorView download(Stream stream, const TensorView& device) const = 0;
  // Pins these parts of the host's memory: views that host() returned, and other memory that is
  // copied to or from the device. Replaces what was pinned before.
  virtual void pin(std::string name, std::span<const MemoryRange> host) = 0;
  // Touches the pages that every run uses, so that a run pays for its memory once, at the start.
  virtual void touch(int threads) const = 0;

 protected:
  Arena() = default;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Memory of the host, where both views are one and nothing is copied.
std::unique_ptr<Arena> host_arena(std::string name, int64_t bytes);
// Memory of the GPU that use_gpu() made this process's own, and an address range of the host of the
// same size, of which only copied pages are touched. Both throw Error if the memory is not
// available.
std::unique_ptr<Arena> gpu_arena(std::string name, int64_t bytes);

}  // namespace tessera
