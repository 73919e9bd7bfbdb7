// The functions of tensor/gpu.h in a build without the CUDA toolkit.
#include "base/error.h"
#include "tensor/gpu.h"

namespace tessera {
namespace {

constexpr const char* kWhy = "this program was built without CUDA";

[[noreturn]] void absent() { CHECK(false, "{}", kWhy); }

}  // namespace

std::string why_no_gpu() {
  return fmt::format("{}: install the CUDA toolkit and configure again.", kWhy);
}
GpuFeatures use_gpu(int64_t) {
  throw Error("{} Or set run.device=cpu to run on the CPU.", why_no_gpu());
}
std::string_view compiled_gpu_architectures() { return ""; }
int64_t free_gpu_bytes() { absent(); }

DeviceBuffer::DeviceBuffer(std::string, int64_t) { absent(); }
DeviceBuffer::~DeviceBuffer() = default;
DeviceBuffer::DeviceBuffer(DeviceBuffer&&) noexcept = default;
DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&&) noexcept = default;

PinnedPages::PinnedPages(std::string, std::span<const MemoryRange>) { absent(); }
PinnedPages::~PinnedPages() = default;
PinnedPages::PinnedPages(PinnedPages&&) noexcept = default;
PinnedPages& PinnedPages::operator=(PinnedPages&&) noexcept = default;
int64_t PinnedPages::bytes() const { absent(); }

GpuStream::GpuStream() { absent(); }
GpuStream::~GpuStream() = default;

GpuEvent::GpuEvent(Timing) { absent(); }
GpuEvent::~GpuEvent() = default;
GpuEvent::GpuEvent(GpuEvent&& other) noexcept : event_(other.event_) {}
void GpuEvent::record(Stream) { absent(); }
void GpuEvent::make_wait(Stream) const { absent(); }
void GpuEvent::synchronise() const { absent(); }
bool GpuEvent::is_over() const { absent(); }
double GpuEvent::seconds_since(const GpuEvent&) const { absent(); }

GpuGraph::~GpuGraph() = default;
GpuGraph::GpuGraph(GpuGraph&&) noexcept = default;
void GpuGraph::begin(Stream) { absent(); }
void GpuGraph::end(Stream) { absent(); }
void GpuGraph::give_up() noexcept { absent(); }
int64_t GpuGraph::captured_nodes() const { absent(); }
void GpuGraph::launch(Stream) const { absent(); }

void copy_in_stream(Stream, void*, const void*, int64_t) { absent(); }
void copy_rows_in_stream(Stream, const RowCopy&) { absent(); }
void fill_in_stream(Stream, void*, int, int64_t) { absent(); }
void write_in_stream(Stream, int64_t*, int64_t) { absent(); }
void synchronise(Stream) { absent(); }

}  // namespace tessera
