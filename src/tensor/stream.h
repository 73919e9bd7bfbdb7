// A queue of work that a device executes in order. The CPU has none: its kernels run in the
// caller's thread, and its Stream has no handle.
#pragma once

namespace tessera {

struct Stream {
  void* handle = nullptr;  // a gpuStream_t
  explicit operator bool() const { return handle != nullptr; }
};

}  // namespace tessera
