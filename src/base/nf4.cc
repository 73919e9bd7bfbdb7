// Compiled without floating-point contraction: a scale is rounded after its multiplication and
// again after its addition.
#include "base/nf4.h"

namespace tessera {

void dequantize_nf4(std::span<const uint8_t> codes, std::span<const uint8_t> scales,
                    std::span<const float> levels, int64_t first, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t at = static_cast<size_t>(first) + i, block = at / kNf4Block;
    const float factor = levels[1 + block / kNf4ScaleBlock];
    const float scale = kNf4ScaleMap.values[scales[block]] * factor + levels[0];
    const unsigned both = codes[at / 2];
    out[i] = kNf4Values[at % 2 == 0 ? both >> 4 : both & 15u] * scale;
  }
}

}  // namespace tessera
