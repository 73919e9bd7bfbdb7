#include "tensor/cuda.h"

#include <charconv>
#include <utility>

#include "base/count.h"
#include "tensor/cuda/check.h"
#include "tensor/cuda/mark.h"

namespace tessera {

std::string why_no_cuda() {
  int devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&devices);
  if (code != cudaSuccess) {
    cudaGetLastError();
    return fmt::format("no CUDA device: {}. Is there an NVIDIA driver (nvidia-smi)?",
                       cudaGetErrorString(code));
  }
  return devices > 0 ? "" : "no CUDA device: the driver shows none (CUDA_VISIBLE_DEVICES?)";
}

namespace {

// Of "80,90" the least: what was compiled for a card runs on it and on later ones, some of them
// after the driver has translated it.
int oldest_card(std::string_view compiled) {
  int oldest = 0;
  for (const char *at = compiled.data(), *end = at + compiled.size(); at < end; ++at) {
    int card = 0;
    at = std::from_chars(at, end, card).ptr;
    if (card > 0 && (oldest == 0 || card < oldest)) oldest = card;
  }
  return oldest;
}

std::string hexadecimal(const cudaUUID_t& uuid) {
  std::string text;
  for (const char c : uuid.bytes)
    text += fmt::format("{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

std::string_view compiled_cuda_architectures() { return TESSERA_CUDA_ARCHITECTURES; }

CudaFeatures use_cuda_device(int64_t index) {
  if (const std::string why = why_no_cuda(); !why.empty())
    throw Error("{} With run.device=cpu the run works without.", why);
  CudaFeatures f;
  check_cuda(cudaGetDeviceCount(&f.devices), "cudaGetDeviceCount");
  const int device = static_cast<int>(index % f.devices);
  check_cuda(cudaSetDevice(device), "cudaSetDevice");
  cudaDeviceProp p{};
  check_cuda(cudaGetDeviceProperties(&p, device), "cudaGetDeviceProperties");
  f.model = p.name;
  f.uuid = hexadecimal(p.uuid);
  f.architecture = 10 * p.major + p.minor;
  f.multiprocessors = p.multiProcessorCount;
  if (f.architecture < oldest_card(compiled_cuda_architectures()))
    throw Error(
        "{} is sm_{}; this program was compiled for sm_{}. Configure again with "
        "-DCMAKE_CUDA_ARCHITECTURES={}, or take run.device=cpu.",
        f.model, f.architecture, compiled_cuda_architectures(), f.architecture);
  check_cuda(cudaDriverGetVersion(&f.driver), "cudaDriverGetVersion");
  check_cuda(cudaRuntimeGetVersion(&f.runtime), "cudaRuntimeGetVersion");
  size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  f.memory_bytes = static_cast<int64_t>(total);
  f.free_bytes = static_cast<int64_t>(free);
  return f;
}

int64_t free_cuda_bytes() {
  size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<int64_t>(free);
}

DeviceBuffer::DeviceBuffer(std::string name, int64_t bytes)
    : name_(std::move(name)), bytes_(bytes) {
  if (bytes == 0) return;
  void* p = nullptr;
  const cudaError_t code = cudaMalloc(&p, static_cast<size_t>(bytes));
  if (code != cudaSuccess) {
    cudaGetLastError();  // else a library that asks for the last one finds this
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    throw Error(
        "the device refused {:.2f} GiB for {}: {}; {:.2f} of its {:.2f} GiB are free. Take a "
        "smaller micro-batch or more recomputation, or end what else uses the device.",
        gib(bytes), name_, cudaGetErrorString(code), gib(free), gib(total));
  }
  data_ = static_cast<std::byte*>(p);
  // Of device memory it returns before it is over, and our streams do not wait for its stream.
  check_cuda(cudaMemset(p, 0, static_cast<size_t>(bytes)), "cudaMemset");
  check_cuda(cudaStreamSynchronize(nullptr), "cudaMemset");
}
DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) cudaFree(data_);
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
    const cudaError_t code =
        cudaHostRegister(r.data, static_cast<size_t>(r.bytes), cudaHostRegisterPortable);
    if (code != cudaSuccess) {
      cudaGetLastError();
      for (const MemoryRange& done : pages_) cudaHostUnregister(done.data);
      throw Error(
          "the driver refused to pin {:.1f} MiB of the host's memory for {}: {}. Pinned memory is "
          "never swapped: free some, or raise the limit of the job. Without layout.offload little "
          "is pinned.",
          static_cast<double>(r.bytes) / (1 << 20), name, cudaGetErrorString(code));
    }
    pages_.push_back(r);
  }
}
PinnedPages::~PinnedPages() {
  for (const MemoryRange& r : pages_) cudaHostUnregister(r.data);
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

CudaStream::CudaStream() {
  cudaStream_t s = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  stream_.handle = s;
}
CudaStream::~CudaStream() { cudaStreamDestroy(native(stream_.handle)); }

CudaEvent::CudaEvent(Timing timing) {
  cudaEvent_t e = nullptr;
  const unsigned flags = timing == Timing::kOn ? cudaEventDefault : cudaEventDisableTiming;
  check_cuda(cudaEventCreateWithFlags(&e, flags), "cudaEventCreateWithFlags");
  event_ = e;
}
CudaEvent::~CudaEvent() {
  if (event_ != nullptr) cudaEventDestroy(static_cast<cudaEvent_t>(event_));
}
CudaEvent::CudaEvent(CudaEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
void CudaEvent::record(Stream s) {
  check_cuda(cudaEventRecord(static_cast<cudaEvent_t>(event_), native(s.handle)),
             "cudaEventRecord");
}
void CudaEvent::make_wait(Stream s) const {
  check_cuda(cudaStreamWaitEvent(native(s.handle), static_cast<cudaEvent_t>(event_), 0),
             "cudaStreamWaitEvent");
}
void CudaEvent::synchronise() const {
  check_cuda(cudaEventSynchronize(static_cast<cudaEvent_t>(event_)), "cudaEventSynchronize");
}
bool CudaEvent::is_over() const {
  const cudaError_t code = cudaEventQuery(static_cast<cudaEvent_t>(event_));
  if (code != cudaErrorNotReady) check_cuda(code, "cudaEventQuery");
  if (code != cudaSuccess) cudaGetLastError();  // the next call must not report "not ready"
  return code == cudaSuccess;
}
double CudaEvent::seconds_since(const CudaEvent& earlier) const {
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(earlier.event_),
                                  static_cast<cudaEvent_t>(event_)),
             "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

CudaGraph::~CudaGraph() {
  give_up();
  if (executable_ != nullptr) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_));
}
CudaGraph::CudaGraph(CudaGraph&& other) noexcept
    : executable_(std::exchange(other.executable_, nullptr)),
      capturing_(std::exchange(other.capturing_, nullptr)),
      nodes_(std::exchange(other.nodes_, 0)) {}
void CudaGraph::begin(Stream s) {
  check_cuda(cudaStreamBeginCapture(native(s.handle), cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture");
  capturing_ = s.handle;
}
int64_t CudaGraph::captured_nodes() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamGetCaptureInfo(native(capturing_), &status, nullptr, &graph, nullptr,
                                      nullptr, nullptr),
             "cudaStreamGetCaptureInfo");
  size_t nodes = 0;
  if (status == cudaStreamCaptureStatusActive)
    check_cuda(cudaGraphGetNodes(graph, nullptr, &nodes), "cudaGraphGetNodes");
  return static_cast<int64_t>(nodes);
}
void CudaGraph::end(Stream s) {
  cudaGraph_t graph = nullptr;
  capturing_ = nullptr;
  check_cuda(cudaStreamEndCapture(native(s.handle), &graph), "cudaStreamEndCapture");
  size_t nodes = 0;
  cudaGraphExec_t executable = nullptr;
  cudaError_t code = cudaGraphGetNodes(graph, nullptr, &nodes);
  if (code == cudaSuccess) code = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check_cuda(code, "cudaGraphInstantiate");
  nodes_ = static_cast<int64_t>(nodes);
  if (executable_ != nullptr) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_));
  executable_ = executable;
}
void CudaGraph::give_up() noexcept {
  if (capturing_ == nullptr) return;
  cudaGraph_t graph = nullptr;
  const cudaError_t code = cudaStreamEndCapture(native(std::exchange(capturing_, nullptr)), &graph);
  if (code == cudaSuccess && graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();
}
void CudaGraph::launch(Stream s) const {
  check_cuda(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable_), native(s.handle)),
             "cudaGraphLaunch");
}

void copy_in_stream(Stream s, void* to, const void* from, int64_t bytes) {
  if (bytes == 0) return;
  check_cuda(
      cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, native(s.handle)),
      "cudaMemcpyAsync");
}
void copy_rows_in_stream(Stream s, const RowCopy& c) {
  if (c.bytes == 0 || c.rows == 0) return;
  check_cuda(cudaMemcpy2DAsync(c.to, static_cast<size_t>(c.to_pitch), c.from,
                               static_cast<size_t>(c.from_pitch), static_cast<size_t>(c.bytes),
                               static_cast<size_t>(c.rows), cudaMemcpyDefault, native(s.handle)),
             "cudaMemcpy2DAsync");
}
void fill_in_stream(Stream s, void* to, int byte, int64_t bytes) {
  if (bytes == 0) return;
  check_cuda(cudaMemsetAsync(to, byte, static_cast<size_t>(bytes), native(s.handle)),
             "cudaMemsetAsync");
}
void write_in_stream(Stream s, int64_t* to, int64_t number) {
  check_cuda(static_cast<cudaError_t>(launch_mark(s, to, number)), "writing a number");
}
void synchronise(Stream s) {
  check_cuda(cudaStreamSynchronize(native(s.handle)), "cudaStreamSynchronize");
}

}  // namespace tessera
