// The GPU of this process: its memory, streams, events and graphs, with vendor-neutral names. A
// build without the CUDA toolkit uses gpu/absent.cc; then only why_no_gpu(), use_gpu() and
// compiled_gpu_architectures() may be called. docs/decisions/cuda.md explains how the parts are
// used.
//
// All functions throw Error with the driver's message if a call fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/pages.h"

namespace tessera {

// Returns the reason why no GPU can be used here, as text for people; empty if one can be used.
std::string why_no_gpu();

struct GpuFeatures {
  std::string model;     // "NVIDIA H100 …"
  std::string uuid;      // UUID of the device (or its MIG instance), 32 hexadecimal digits
  int devices = 0;       // number of devices that this process sees
  int architecture = 0;  // 90: compute capability 9.0
  int multiprocessors = 0;
  // 13000: CUDA 13.0. The version that the driver supports, and the version linked to the program.
  int driver = 0, runtime = 0;
  int64_t memory_bytes = 0, free_bytes = 0;
};

// Returns the GPU architectures that kernels were compiled for, such as "80,90"; empty without the
// CUDA toolkit.
std::string_view compiled_gpu_architectures();

// Selects the device that this process computes on: number `index` modulo the number of visible
// devices. The ranks of a machine pass different indices. Throws Error if there is no device, or if
// the kernels were not compiled for it.
GpuFeatures use_gpu(int64_t index);

// Returns the bytes of device memory that no process uses now.
int64_t free_gpu_bytes();

// Device memory, allocated and freed by one call each. Initialized to zero.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(std::string name, int64_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::string name_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Pinned pages of host memory. The device copies them asynchronously, while both sides compute;
// other memory is copied in pieces while the caller waits. The memory must outlive this object.
class PinnedPages {
 public:
  PinnedPages() = default;
  // `parts` need not be aligned to pages, and may share pages.
  PinnedPages(std::string name, std::span<const MemoryRange> parts);
  ~PinnedPages();
  PinnedPages(PinnedPages&& other) noexcept;
  PinnedPages& operator=(PinnedPages&& other) noexcept;

  int64_t bytes() const;
  std::span<const MemoryRange> pages() const { return pages_; }

 private:
  std::vector<MemoryRange> pages_;
};

// A stream: work that a device executes in order. On the CPU, kernels run in the caller's thread,
// and a Stream has no handle.
struct Stream {
  void* handle = nullptr;  // a gpuStream_t
  explicit operator bool() const { return handle != nullptr; }
};

class GpuStream {
 public:
  GpuStream();
  ~GpuStream();
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;

  Stream get() const { return stream_; }

 private:
  Stream stream_;
};

// A point in a stream that other streams and the host can wait for.
class GpuEvent {
 public:
  enum class Timing { kOff, kOn };
  explicit GpuEvent(Timing timing = Timing::kOff);
  ~GpuEvent();
  GpuEvent(GpuEvent&& other) noexcept;
  GpuEvent& operator=(GpuEvent&&) = delete;

  void record(Stream s);
  void make_wait(Stream s) const;  // work that is enqueued in `s` later starts after the event
  void synchronise() const;        // waits until the event has occurred
  bool is_over() const;
  // Returns the seconds from `earlier` to this event on the device. Both must have timing and must
  // have occurred.
  double seconds_since(const GpuEvent& earlier) const;

 private:
  void* event_ = nullptr;
};

// A graph of the work that is enqueued in streams between begin() and end(), launched by one call.
// Nothing runs during the capture; all streams fork from the first one by events and join it at the
// end. If a graph is destroyed during its capture, for example by an exception, the capture is
// closed.
class GpuGraph {
 public:
  GpuGraph() = default;
  ~GpuGraph();
  GpuGraph(GpuGraph&& other) noexcept;
  GpuGraph& operator=(GpuGraph&&) = delete;

  void begin(Stream s);
  void end(Stream s);
  void give_up() noexcept;         // closes the capture after an Error, instead of end()
  int64_t captured_nodes() const;  // number of nodes since begin()
  bool ready() const { return executable_ != nullptr; }
  void launch(Stream s) const;
  int64_t nodes() const { return nodes_; }

 private:
  void* executable_ = nullptr;
  [[maybe_unused]] void* capturing_ = nullptr;  // the stream, between begin() and end()
  int64_t nodes_ = 0;
};

// Enqueues a copy between device and host memory, or within one of them. Pageable host memory is
// read before the call returns. The driver rejects a range of host memory that is only partly
// pinned; whole_or_none() of tensor/pages.h splits such a range.
void copy_in_stream(Stream s, void* to, const void* from, int64_t bytes);
// A copy of `rows` rows of `bytes` bytes. A pitch is the distance between rows in bytes.
struct RowCopy {
  void* to = nullptr;
  int64_t to_pitch = 0;
  const void* from = nullptr;
  int64_t from_pitch = 0;
  int64_t bytes = 0, rows = 0;
};
void copy_rows_in_stream(Stream s, const RowCopy& c);
void fill_in_stream(Stream s, void* to, int byte, int64_t bytes);
// Enqueues a write of a number to pinned host memory. The host can read the number while later work
// still runs.
void write_in_stream(Stream s, int64_t* to, int64_t number);
// Waits until all enqueued work of the stream is complete.
void synchronise(Stream s);

}  // namespace tessera
