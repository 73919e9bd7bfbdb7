#include "kernels/fill.h"

#include <cstring>

#include "kernels/cpu/operand.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

void clear(const TensorView& y) {
  parallel_ranges(y.bytes(), 4 * kGrainElements, [&](int64_t begin, int64_t end) {
    std::memset(y.as<char>() + begin, 0, static_cast<size_t>(end - begin));
  });
}

void fill(const TensorView& y, float value) {
  const bool low = Source::is_bf16(y);
  parallel_ranges(y.elements(), kGrainElements, [&](int64_t begin, int64_t end) {
    if (low) {
      std::fill(y.bf16() + begin, y.bf16() + end, BF16(value));
    } else {
      std::fill(y.f32() + begin, y.f32() + end, value);
    }
  });
}

}  // namespace tessera::kernels
