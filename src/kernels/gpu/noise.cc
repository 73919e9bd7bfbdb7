// Random operands for measurements. The sum of four bytes of an xorshift64 output is approximately
// normally distributed (mean 510, standard deviation 147.8). A block is generated on the host and
// repeated on the device by copies of doubling size.
#include "kernels/gpu/noise.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "kernels/gpu_products.h"
#include "tensor/gpu.h"
#include "tensor/tensor.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kBlockBytes = 4 << 20;  // generated on the host; the device repeats it

void send_repeated(Stream s, void* to, const std::vector<std::byte>& block, int64_t bytes) {
  std::byte* const first = element(to, DType::kU8, 0);
  int64_t done = std::min<int64_t>(bytes, std::ssize(block));
  copy_in_stream(s, first, block.data(), done);
  for (; done < bytes; done *= 2)
    copy_in_stream(s, first + done, first, std::min(done, bytes - done));
  synchronise(s);
}

}  // namespace

namespace gpu {

uint32_t Noise::bits() {
  if (left_ == 0) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    left_ = 2;
  }
  return static_cast<uint32_t>(state_ >> (32 * --left_));
}

float Noise::operator()() {
  const uint32_t w = bits();
  const int sum = (w & 255) + (w >> 8 & 255) + (w >> 16 & 255) + (w >> 24);
  return static_cast<float>(sum - 510) / 147.8f;
}

void fill_with_codes(Stream s, void* to, int64_t count) {
  constexpr uint32_t kBelowTwo = 0xbf;  // clears the exponent's highest bit
  std::vector<std::byte> block(std::min(count, kBlockBytes));
  Noise next;
  for (std::byte& b : block) b = static_cast<std::byte>(next.bits() & kBelowTwo);
  if (count > 0) send_repeated(s, to, block, count);
}

}  // namespace gpu

void fill_with_noise(Stream s, void* to, DType type, int64_t elements) {
  const int64_t size = size_of(type), bytes = elements * size;
  std::vector<std::byte> block(std::min(bytes, kBlockBytes));
  gpu::Noise next;
  for (size_t at = 0; at < block.size(); at += size) {
    const float x = next();
    uint16_t half = 0;
    if (type == DType::kBF16)
      half = BF16(x).bits;
    else if (type == DType::kF16)
      half = F16(x).bits;
    else
      CHECK(type == DType::kF32, "noise of {}", name_of(type));
    if (type == DType::kF32)
      std::memcpy(block.data() + at, &x, sizeof(x));
    else
      std::memcpy(block.data() + at, &half, sizeof(half));
  }
  if (bytes > 0) send_repeated(s, to, block, bytes);
}

}  // namespace tessera::kernels
