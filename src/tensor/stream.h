// A line of work that a device does in order, and moments in it. Of the CPU there is none: its
// kernels run in the caller's thread, and a Stream without a handle says so.
#pragma once

namespace tessera {

struct Stream {
  void* handle = nullptr;  // a gpuStream_t
  explicit operator bool() const { return handle != nullptr; }
};

}  // namespace tessera
