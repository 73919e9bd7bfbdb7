// The arena of a run that computes on the host.
#include "tensor/arena.h"

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
  Buffer memory_;
};

}  // namespace

std::unique_ptr<Arena> host_arena(std::string name, int64_t bytes) {
  return std::make_unique<HostArena>(std::move(name), bytes);
}

}  // namespace tessera
