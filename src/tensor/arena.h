// The memory of a run on its device, and the host's view of it. Offsets are the same in both.
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

  std::byte* data() const { return data_; }  // the address for kernels
  int64_t bytes() const { return bytes_; }
  bool contains(const void* p) const {
    const std::less<const void*> before;
    return !before(p, data_) && before(p, data_ + bytes_);
  }

  // Returns the host's view of the same bytes. A view of other memory is returned unchanged.
  virtual TensorView host(const TensorView& device) const = 0;
  // Enqueues a copy of the host's bytes to the device. `host` is a result of host(); a view of
  // other memory is ignored.
  virtual void upload(Stream stream, const TensorView& host) const = 0;
  // Enqueues a copy of the device's bytes to the host. Returns host(device).
  virtual TensorView download(Stream stream, const TensorView& device) const = 0;
  // Pins these ranges of host memory: results of host(), and other memory that is copied to or from
  // the device. Unpins all ranges that were pinned before.
  virtual void pin(std::string name, std::span<const MemoryRange> host) = 0;
  // Touches the pages that every run uses, so that all page faults occur at the start.
  virtual void touch(int threads) const = 0;

 protected:
  Arena() = default;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Creates an arena in host memory. Both views are the same, and nothing is copied.
std::unique_ptr<Arena> host_arena(std::string name, int64_t bytes);
// Creates an arena in the memory of the GPU that use_gpu() selected, and an address range of the
// same size on the host, of which only copied pages are touched. Both functions throw Error if the
// memory is not available.
std::unique_ptr<Arena> gpu_arena(std::string name, int64_t bytes);

}  // namespace tessera
