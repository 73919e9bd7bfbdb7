// The GPU of this process: its memory, streams, events and graphs, without the names of its
// runtime. Where the build has no toolkit these are the functions of gpu/absent.cc, of which only
// why_no_gpu() may be called. docs/decisions/cuda.md says how the parts are used.
//
// All functions throw Error with the driver's words where a call fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/pages.h"

namespace tessera {

// Why no GPU can be used here, for people; empty: one can.
std::string why_no_gpu();

struct GpuFeatures {
  std::string model;     // "NVIDIA H100 …"
  std::string uuid;      // of the device (or its MIG instance), 32 hexadecimal digits
  int devices = 0;       // that this process sees
  int architecture = 0;  // 90: compute capability 9.0
  int multiprocessors = 0;
  int driver = 0,
      runtime = 0;  // 13000: CUDA 13.0; what the driver can do, what we were linked with
  int64_t memory_bytes = 0, free_bytes = 0;
};

// "80,90": the cards that kernels were compiled for. Empty without the toolkit.
std::string_view compiled_gpu_architectures();

// Makes a device the one that this process computes on: number `index` of those it sees, counted
// around. Every rank of a machine takes another. Throws Error where there is none, or where kernels
// were compiled for other cards.
GpuFeatures use_gpu(int64_t index);

// What nobody has of the device's memory now, other processes included.
int64_t free_gpu_bytes();

// Memory of the device, taken and given back by one call each; zero at the start.
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

// Pages of the host's memory that the device reads and writes by itself, beside what either side
// computes; other memory it copies piece by piece while the caller waits. The memory outlives this.
class PinnedPages {
 public:
  PinnedPages() = default;
  // `parts` need not begin or end with a page; their pages may be the same.
  PinnedPages(std::string name, std::span<const MemoryRange> parts);
  ~PinnedPages();
  PinnedPages(PinnedPages&& other) noexcept;
  PinnedPages& operator=(PinnedPages&& other) noexcept;

  int64_t bytes() const;
  std::span<const MemoryRange> pages() const { return pages_; }

 private:
  std::vector<MemoryRange> pages_;
};

// A queue of work that a device executes in order. The CPU has none: its kernels run in the
// caller's thread, and its Stream has no handle.
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

// A moment in a stream that others can wait for.
class GpuEvent {
 public:
  enum class Timing { kOff, kOn };
  explicit GpuEvent(Timing timing = Timing::kOff);
  ~GpuEvent();
  GpuEvent(GpuEvent&& other) noexcept;
  GpuEvent& operator=(GpuEvent&&) = delete;

  void record(Stream s);
  void make_wait(Stream s) const;  // what is enqueued in `s` from now on starts after it
  void synchronise() const;        // returns after it
  bool is_over() const;
  // Returns the device's time from `earlier` to this one; both have timing and are over.
  double seconds_since(const GpuEvent& earlier) const;

 private:
  void* event_ = nullptr;
};

// The work enqueued in streams between begin() and end(), to be launched by one call. Nothing runs
// during the capture; all streams fork from the first by events and join it at the end. A graph
// that is destroyed between the two, for example by an exception, closes its capture.
class GpuGraph {
 public:
  GpuGraph() = default;
  ~GpuGraph();
  GpuGraph(GpuGraph&& other) noexcept;
  GpuGraph& operator=(GpuGraph&&) = delete;

  void begin(Stream s);
  void end(Stream s);
  void give_up() noexcept;         // instead of end(), after an Error
  int64_t captured_nodes() const;  // since begin()
  bool ready() const { return executable_ != nullptr; }
  void launch(Stream s) const;
  int64_t nodes() const { return nodes_; }

 private:
  void* executable_ = nullptr;
  [[maybe_unused]] void* capturing_ = nullptr;  // the stream, between begin() and end()
  int64_t nodes_ = 0;
};

// Copies between device and host memory, or within one of them, in the stream's order. Pageable
// host memory is read before the call returns. What is on the host is pinned or is not: the driver
// refuses a copy of both at once (whole_or_none of tensor/pages.h cuts it).
void copy_in_stream(Stream s, void* to, const void* from, int64_t bytes);
// `rows` rows of `bytes`, so many bytes apart.
struct RowCopy {
  void* to = nullptr;
  int64_t to_pitch = 0;
  const void* from = nullptr;
  int64_t from_pitch = 0;
  int64_t bytes = 0, rows = 0;
};
void copy_rows_in_stream(Stream s, const RowCopy& c);
void fill_in_stream(Stream s, void* to, int byte, int64_t bytes);
// Writes a number to pinned memory of the host, which sees it while later work still runs.
void write_in_stream(Stream s, int64_t* to, int64_t number);
// Waits until all that was enqueued is over.
void synchronise(Stream s);

}  // namespace tessera
