#include "checkpoint/mxfp4.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/dtype.h"

namespace tessera::checkpoint {
namespace {

constexpr std::array<float, 8> kMagnitudes = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

float factor_of(std::byte scale) {
  const int s = std::to_integer<int>(scale);
  return s == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, s - 127);
}

}  // namespace

void decode_mxfp4(std::span<const std::byte> blocks, std::span<const std::byte> scales,
                  int64_t first, int64_t count, std::byte* out) {
  float factor = 0;
  for (int64_t i = first; i < first + count; ++i) {
    if (i == first || i % kMxfp4Block == 0) factor = factor_of(scales[i / kMxfp4Block]);
    const unsigned byte = std::to_integer<unsigned>(blocks[i / 2]);
    const unsigned bits = i % 2 == 0 ? byte & 15u : byte >> 4;
    const float magnitude = kMagnitudes[bits & 7u] * factor;
    const BF16 x(bits < 8 ? magnitude : -magnitude);
    std::memcpy(out + (i - first) * static_cast<int64_t>(sizeof(x)), &x, sizeof(x));
  }
}

}  // namespace tessera::checkpoint
