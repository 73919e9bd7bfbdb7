// Quantizes and reads blocks of moments on the host.
#include "kernels/update.h"

#include <algorithm>

#define HWY_TARGET_INCLUDE "kernels/cpu/moments_exports_simd.h"
#include "base/error.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/moments_exports_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(QuantizeMoments);

void quantize_moments(std::span<const float> x, MomentCode code, std::span<uint8_t> codes,
                      std::span<float> scales, int threads) {
  const auto blocks = std::ssize(x) / kMomentBlock;
  CHECK(std::ssize(x) == blocks * kMomentBlock && codes.size() == x.size() &&
            std::ssize(scales) == blocks,
        "{} moments, {} codes, {} scales", x.size(), codes.size(), scales.size());
  const auto quantize = HWY_DYNAMIC_DISPATCH(QuantizeMoments);
  parallel_rows(blocks, kMomentBlock, threads, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kMomentBlock;
    quantize(code, x.data() + first, (end - begin) * kMomentBlock, codes.data() + first,
             scales.data() + begin);
  });
}

void dequantize_moments(std::span<const uint8_t> codes, std::span<const float> scales,
                        MomentCode code, int64_t first, std::span<float> x) {
  CHECK(first >= 0 && first + std::ssize(x) <= std::ssize(codes) &&
            codes.size() == scales.size() * kMomentBlock,
        "moments from {} to {} of {} codes, {} scales", first, first + std::ssize(x), codes.size(),
        scales.size());
  const MomentTable& t = table_of(code);
  for (int64_t i = 0; i < std::ssize(x); ++i)
    x[i] = t.values[codes[first + i]] * scales[(first + i) / kMomentBlock];
}

}  // namespace tessera::kernels
