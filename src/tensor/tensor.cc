// Views with a checked type, and host memory, which is mapped but not touched; large buffers use
// huge pages.
#include "tensor/tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/count.h"
#include "base/error.h"
#include "tensor/pages.h"

namespace tessera {
namespace {

constexpr int64_t kHugePage = 2ll << 20;  // on x86-64

}  // namespace

float* TensorView::f32() const {
  CHECK(dtype == DType::kF32, "a view of type {} is read as f32", name_of(dtype));
  return as<float>();
}

BF16* TensorView::bf16() const {
  CHECK(dtype == DType::kBF16, "a view of type {} is read as bf16", name_of(dtype));
  return as<BF16>();
}

HostBuffer::HostBuffer(std::string name, int64_t bytes) : name_(std::move(name)), bytes_(bytes) {
  CHECK(bytes >= 0, "buffer '{}' of {} bytes", name_, bytes);
  if (bytes == 0) return;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    throw Error(
        "the system did not provide {:.1f} MiB for {}: {}. Free memory, or raise the limit of this "
        "process (ulimit -v, or the job's memory request)",
        mib(bytes), name_, std::strerror(errno));
  }
  data_ = static_cast<std::byte*>(p);
  // Huge pages avoid most page faults and TLB misses of an arena. A buffer smaller than a few huge
  // pages would waste memory by rounding. A failure of `madvise` is harmless.
  if (bytes >= 4 * kHugePage) madvise(p, bytes, MADV_HUGEPAGE);
}

HostBuffer::~HostBuffer() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : name_(std::move(other.name_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void HostBuffer::touch(int threads) const {
  // A thread touches whole huge pages, so that no two threads fault on the same one.
  const int64_t blocks = (bytes_ + kHugePage - 1) / kHugePage;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t end = std::min(bytes_, (block + 1) * kHugePage);
    for (int64_t at = block * kHugePage; at < end; at += kPageBytes) {
      volatile std::byte* p = data_ + at;
      *p = *p;  // a write that keeps the contents
    }
  }
}

}  // namespace tessera
