// What the build takes without the CUDA toolkit.
#include "base/error.h"
#include "tensor/cuda.h"

namespace tessera {
namespace {

constexpr const char* kWhy = "this program was built without CUDA";

[[noreturn]] void absent() { CHECK(false, "{}", kWhy); }

}  // namespace

std::string why_no_cuda() {
  return fmt::format("{}: install the CUDA toolkit and configure again.", kWhy);
}
CudaFeatures use_cuda_device(int64_t) {
  throw Error("{} With run.device=cpu the run works without.", why_no_cuda());
}
std::string_view compiled_cuda_architectures() { return ""; }
int64_t free_cuda_bytes() { absent(); }

DeviceBuffer::DeviceBuffer(std::string, int64_t) { absent(); }
DeviceBuffer::~DeviceBuffer() = default;
DeviceBuffer::DeviceBuffer(DeviceBuffer&&) noexcept = default;
DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&&) noexcept = default;

PinnedPages::PinnedPages(std::string, std::span<const MemoryRange>) { absent(); }
PinnedPages::~PinnedPages() = default;
PinnedPages::PinnedPages(PinnedPages&&) noexcept = default;
PinnedPages& PinnedPages::operator=(PinnedPages&&) noexcept = default;
int64_t PinnedPages::bytes() const { absent(); }

CudaStream::CudaStream() { absent(); }
CudaStream::~CudaStream() = default;

CudaEvent::CudaEvent(Timing) { absent(); }
CudaEvent::~CudaEvent() = default;
CudaEvent::CudaEvent(CudaEvent&& other) noexcept : event_(other.event_) {}
void CudaEvent::record(Stream) { absent(); }
void CudaEvent::make_wait(Stream) const { absent(); }
void CudaEvent::synchronise() const { absent(); }
bool CudaEvent::is_over() const { absent(); }
double CudaEvent::seconds_since(const CudaEvent&) const { absent(); }

CudaGraph::~CudaGraph() = default;
CudaGraph::CudaGraph(CudaGraph&&) noexcept = default;
void CudaGraph::begin(Stream) { absent(); }
void CudaGraph::end(Stream) { absent(); }
void CudaGraph::give_up() noexcept { absent(); }
int64_t CudaGraph::captured_nodes() const { absent(); }
void CudaGraph::launch(Stream) const { absent(); }

void copy_in_stream(Stream, void*, const void*, int64_t) { absent(); }
void copy_rows_in_stream(Stream, const RowCopy&) { absent(); }
void fill_in_stream(Stream, void*, int, int64_t) { absent(); }
void write_in_stream(Stream, int64_t*, int64_t) { absent(); }
void synchronise(Stream) { absent(); }

}  // namespace tessera
