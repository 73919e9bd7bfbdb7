// The arenas of runs. On a CPU, kernels and the host use the same addresses. On a GPU, an arena is
// device memory and an address range of the same size on the host. A value has the same offset in
// both, so a view is translated by adding the difference of the base addresses. Host pages exist
// only after they are touched, so only copied values use host memory.
#include "tensor/arena.h"
#include "tensor/gpu.h"

namespace tessera {
namespace {

class HostArena : public Arena {
 public:
  HostArena(std::string name, int64_t bytes) : memory_(std::move(name), bytes) {
    data_ = memory_.data();
    bytes_ = memory_.bytes();
  }
  TensorView host(const TensorView& device) const override { return device; }
  void upload(Stream, const TensorView&) const override {}
  TensorView download(Stream, const TensorView& device) const override { return device; }
  void pin(std::string, std::span<const MemoryRange>) override {}
  void touch(int threads) const override { memory_.touch(threads); }

 private:
  HostBuffer memory_;
};

class GpuArena : public Arena {
 public:
  GpuArena(const std::string& name, int64_t bytes)
      : mirror_("the host's copy of the " + name, bytes), memory_("the " + name, bytes) {
    data_ = memory_.data();
    bytes_ = memory_.bytes();
  }
  TensorView host(const TensorView& device) const override {
    if (!contains(device.data)) return device;
    return {mirror_.data() + (device.as<std::byte>() - data_), device.dtype, device.shape};
  }
  void upload(Stream stream, const TensorView& host) const override {
    if (!is_mirrored(host)) return;
    for (const MemoryRange& r : pieces_of(host))
      copy_in_stream(stream, on_device(r), r.data, r.bytes);
  }
  TensorView download(Stream stream, const TensorView& device) const override {
    const TensorView to = host(device);
    if (to.data == device.data) return to;
    for (const MemoryRange& r : pieces_of(to))
      copy_in_stream(stream, r.data, on_device(r), r.bytes);
    return to;
  }
  void pin(std::string name, std::span<const MemoryRange> host) override {
    pinned_ = {};  // pages cannot be pinned twice
    pinned_ = PinnedPages(std::move(name), host);
  }
  void touch(int) const override {}  // device memory exists from the start

 private:
  // Splits a view, because one copy must not mix pinned and pageable memory.
  std::vector<MemoryRange> pieces_of(const TensorView& host) const {
    return whole_or_none({host.as<std::byte>(), host.bytes()}, pinned_.pages());
  }
  bool is_mirrored(const TensorView& host) const {
    const std::less<const void*> before;
    return !before(host.data, mirror_.data()) && before(host.data, mirror_.data() + bytes_);
  }
  std::byte* on_device(const MemoryRange& host) const {
    return data_ + (host.data - mirror_.data());
  }

  HostBuffer mirror_;
  DeviceBuffer memory_;
  PinnedPages pinned_;
};

}  // namespace

std::unique_ptr<Arena> host_arena(std::string name, int64_t bytes) {
  return std::make_unique<HostArena>(std::move(name), bytes);
}

std::unique_ptr<Arena> gpu_arena(std::string name, int64_t bytes) {
  return std::make_unique<GpuArena>(name, bytes);
}

}  // namespace tessera
