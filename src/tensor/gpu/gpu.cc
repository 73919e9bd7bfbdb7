// The functions of tensor/gpu.h on the CUDA runtime (or another one with the same calls,
// gpu_runtime.h). Every failure becomes an Error, and the runtime's last error is cleared, so that
// a later call does not report it again.
#include "tensor/gpu.h"

#include <charconv>
#include <utility>

#include "base/count.h"
#include "base/error.h"
#include "tensor/gpu/check.h"

namespace tessera {

void check_gpu(gpuError_t code, const char* call) {
  if (code == gpuSuccess) return;
  gpuGetLastError();
  throw Error("{} failed: {} ({}). Run nvidia-smi to see what else uses the device.", call,
              gpuGetErrorString(code), gpuGetErrorName(code));
}

std::string why_no_gpu() {
  int devices = 0;
  const gpuError_t code = gpuGetDeviceCount(&devices);
  if (code != gpuSuccess) {
    gpuGetLastError();
    return fmt::format("no CUDA device: {}. Is there an NVIDIA driver (nvidia-smi)?",
                       gpuGetErrorString(code));
  }
  return devices > 0 ? "" : "no CUDA device: the driver shows none (CUDA_VISIBLE_DEVICES?)";
}

namespace {

// Returns the smallest number of a list such as "80,90". Code that was compiled for one GPU
// architecture runs on it and on later ones, on some of them after the driver has translated it.
int oldest_card(std::string_view compiled) {
  int oldest = 0;
  for (const char *at = compiled.data(), *end = at + compiled.size(); at < end; ++at) {
    int card = 0;
    at = std::from_chars(at, end, card).ptr;
    if (card > 0 && (oldest == 0 || card < oldest)) oldest = card;
  }
  return oldest;
}

std::string hexadecimal(const gpuUUID_t& uuid) {
  std::string text;
  for (const unsigned char c : uuid.bytes) text += fmt::format("{:02x}", c);
  return text;
}

}  // namespace

std::string_view compiled_gpu_architectures() { return TESSERA_CUDA_ARCHITECTURES; }

// The ranks of a machine are assigned to its devices round-robin.
GpuFeatures use_gpu(int64_t index) {
  if (const std::string why = why_no_gpu(); !why.empty())
    throw Error("{} Set run.device=cpu to run on the CPU.", why);
  GpuFeatures f;
  check_gpu(gpuGetDeviceCount(&f.devices), "gpuGetDeviceCount");
  const int device = static_cast<int>(index % f.devices);
  check_gpu(gpuSetDevice(device), "gpuSetDevice");
  gpuDeviceProp p{};
  check_gpu(gpuGetDeviceProperties(&p, device), "gpuGetDeviceProperties");
  f.model = p.name;
  f.uuid = hexadecimal(p.uuid);
  f.architecture = 10 * p.major + p.minor;
  f.multiprocessors = p.multiProcessorCount;
  if (f.architecture < oldest_card(compiled_gpu_architectures()))
    throw Error(
        "{} is sm_{}; this program was compiled for sm_{}. Build it again with "
        "-DCMAKE_CUDA_ARCHITECTURES={}, or set run.device=cpu.",
        f.model, f.architecture, compiled_gpu_architectures(), f.architecture);
  check_gpu(gpuDriverGetVersion(&f.driver), "gpuDriverGetVersion");
  check_gpu(gpuRuntimeGetVersion(&f.runtime), "gpuRuntimeGetVersion");
  size_t free = 0, total = 0;
  check_gpu(gpuMemGetInfo(&free, &total), "gpuMemGetInfo");
  f.memory_bytes = total;
  f.free_bytes = free;
  return f;
}

int64_t free_gpu_bytes() {
  size_t free = 0, total = 0;
  check_gpu(gpuMemGetInfo(&free, &total), "gpuMemGetInfo");
  return free;
}

DeviceBuffer::DeviceBuffer(std::string name, int64_t bytes)
    : name_(std::move(name)), bytes_(bytes) {
  if (bytes == 0) return;
  void* p = nullptr;
  const gpuError_t code = gpuMalloc(&p, bytes);
  if (code != gpuSuccess) {
    gpuGetLastError();  // otherwise another library would read this error
    size_t free = 0, total = 0;
    gpuMemGetInfo(&free, &total);
    throw Error(
        "the device could not allocate {:.2f} GiB for {}: {}; {:.2f} of its {:.2f} GiB are free. "
        "Use a smaller micro-batch or more recomputation, or end other processes on the device.",
        gib(bytes), name_, gpuGetErrorString(code), gib(free), gib(total));
  }
  data_ = static_cast<std::byte*>(p);
  // gpuMemset on device memory returns before it is complete, and our streams do not wait for the
  // default stream.
  check_gpu(gpuMemset(p, 0, bytes), "gpuMemset");
  check_gpu(gpuStreamSynchronize(nullptr), "gpuMemset");
}
DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) gpuFree(data_);
}
DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PinnedPages::PinnedPages(std::string name, std::span<const MemoryRange> parts) {
  for (const MemoryRange& r : whole_pages(parts)) {
    const gpuError_t code = gpuHostRegister(r.data, r.bytes, gpuHostRegisterPortable);
    if (code != gpuSuccess) {
      gpuGetLastError();
      // The destructor does not run if the constructor throws, so the pinned pages are released
      // here.
      for (const MemoryRange& done : pages_) gpuHostUnregister(done.data);
      throw Error(
          "the driver could not pin {:.1f} MiB of host memory for {}: {}. Pinned memory is never "
          "swapped: free some memory, or raise the memory limit of the job. Without "
          "layout.offload, little memory is pinned.",
          mib(r.bytes), name, gpuGetErrorString(code));
    }
    pages_.push_back(r);
  }
}
PinnedPages::~PinnedPages() {
  for (const MemoryRange& r : pages_) gpuHostUnregister(r.data);
}
PinnedPages::PinnedPages(PinnedPages&& other) noexcept { *this = std::move(other); }
PinnedPages& PinnedPages::operator=(PinnedPages&& other) noexcept {
  std::swap(pages_, other.pages_);
  return *this;
}
int64_t PinnedPages::bytes() const {
  int64_t bytes = 0;
  for (const MemoryRange& r : pages_) bytes += r.bytes;
  return bytes;
}

GpuStream::GpuStream() {
  gpuStream_t s = nullptr;
  // Non-blocking: no implicit synchronization with the default stream.
  check_gpu(gpuStreamCreateWithFlags(&s, gpuStreamNonBlocking), "gpuStreamCreateWithFlags");
  stream_.handle = s;
}
GpuStream::~GpuStream() { gpuStreamDestroy(native(stream_)); }

namespace {

// Return the runtime's types of handles, which tensor/gpu.h declares as void*.
gpuEvent_t native_event(void* event) { return static_cast<gpuEvent_t>(event); }
gpuGraphExec_t native_graph(void* executable) { return static_cast<gpuGraphExec_t>(executable); }

}  // namespace

GpuEvent::GpuEvent(Timing timing) {
  gpuEvent_t e = nullptr;
  // Events without timing are cheaper; most only order streams.
  const unsigned flags = timing == Timing::kOn ? gpuEventDefault : gpuEventDisableTiming;
  check_gpu(gpuEventCreateWithFlags(&e, flags), "gpuEventCreateWithFlags");
  event_ = e;
}
GpuEvent::~GpuEvent() {
  if (event_ != nullptr) gpuEventDestroy(native_event(event_));
}
GpuEvent::GpuEvent(GpuEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
void GpuEvent::record(Stream s) {
  check_gpu(gpuEventRecord(native_event(event_), native(s)), "gpuEventRecord");
}
void GpuEvent::make_wait(Stream s) const {
  check_gpu(gpuStreamWaitEvent(native(s), native_event(event_), 0), "gpuStreamWaitEvent");
}
void GpuEvent::synchronise() const {
  check_gpu(gpuEventSynchronize(native_event(event_)), "gpuEventSynchronize");
}
// The runtime's error "not ready" is a result here, not a failure.
bool GpuEvent::is_over() const {
  const gpuError_t code = gpuEventQuery(native_event(event_));
  if (code != gpuErrorNotReady) check_gpu(code, "gpuEventQuery");
  if (code != gpuSuccess) gpuGetLastError();  // the next call must not report "not ready"
  return code == gpuSuccess;
}
double GpuEvent::seconds_since(const GpuEvent& earlier) const {
  float milliseconds = 0;
  check_gpu(gpuEventElapsedTime(&milliseconds, native_event(earlier.event_), native_event(event_)),
            "gpuEventElapsedTime");
  return milliseconds * 1e-3;
}

GpuGraph::~GpuGraph() {
  give_up();
  if (executable_ != nullptr) gpuGraphExecDestroy(native_graph(executable_));
}
GpuGraph::GpuGraph(GpuGraph&& other) noexcept
    : executable_(std::exchange(other.executable_, nullptr)),
      capturing_(std::exchange(other.capturing_, nullptr)),
      nodes_(std::exchange(other.nodes_, 0)) {}
void GpuGraph::begin(Stream s) {
  // Thread-local: other threads may use the runtime during the capture.
  check_gpu(gpuStreamBeginCapture(native(s), gpuStreamCaptureModeThreadLocal),
            "gpuStreamBeginCapture");
  capturing_ = s.handle;
}
int64_t GpuGraph::captured_nodes() const {
  gpuStreamCaptureStatus status = gpuStreamCaptureStatusNone;
  gpuGraph_t graph = nullptr;
  check_gpu(gpuStreamGetCaptureInfo(native({capturing_}), &status, &graph),
            "gpuStreamGetCaptureInfo");
  size_t nodes = 0;
  if (status == gpuStreamCaptureStatusActive)
    check_gpu(gpuGraphGetNodes(graph, nullptr, &nodes), "gpuGraphGetNodes");
  return nodes;
}
// Instantiates the captured graph. The graph itself is only a description and is destroyed
// immediately. The executable replaces an older one only if all calls succeeded.
void GpuGraph::end(Stream s) {
  gpuGraph_t graph = nullptr;
  capturing_ = nullptr;
  check_gpu(gpuStreamEndCapture(native(s), &graph), "gpuStreamEndCapture");
  size_t nodes = 0;
  gpuGraphExec_t executable = nullptr;
  gpuError_t code = gpuGraphGetNodes(graph, nullptr, &nodes);
  if (code == gpuSuccess) code = gpuGraphInstantiate(&executable, graph, 0);
  gpuGraphDestroy(graph);
  check_gpu(code, "gpuGraphInstantiate");
  nodes_ = nodes;
  if (executable_ != nullptr) gpuGraphExecDestroy(native_graph(executable_));
  executable_ = executable;
}
void GpuGraph::give_up() noexcept {
  if (capturing_ == nullptr) return;
  gpuGraph_t graph = nullptr;
  const gpuError_t code = gpuStreamEndCapture(native({std::exchange(capturing_, nullptr)}), &graph);
  if (code == gpuSuccess && graph != nullptr) gpuGraphDestroy(graph);
  gpuGetLastError();
}
void GpuGraph::launch(Stream s) const {
  check_gpu(gpuGraphLaunch(native_graph(executable_), native(s)), "gpuGraphLaunch");
}

void copy_in_stream(Stream s, void* to, const void* from, int64_t bytes) {
  if (bytes == 0) return;
  check_gpu(gpuMemcpyAsync(to, from, bytes, gpuMemcpyDefault, native(s)), "gpuMemcpyAsync");
}
void copy_rows_in_stream(Stream s, const RowCopy& c) {
  if (c.bytes == 0 || c.rows == 0) return;
  check_gpu(gpuMemcpy2DAsync(c.to, c.to_pitch, c.from, c.from_pitch, c.bytes, c.rows,
                             gpuMemcpyDefault, native(s)),
            "gpuMemcpy2DAsync");
}
void fill_in_stream(Stream s, void* to, int byte, int64_t bytes) {
  if (bytes == 0) return;
  check_gpu(gpuMemsetAsync(to, byte, bytes, native(s)), "gpuMemsetAsync");
}
void synchronise(Stream s) { check_gpu(gpuStreamSynchronize(native(s)), "gpuStreamSynchronize"); }

}  // namespace tessera
