// Initial weights on the CPU. Work is divided into chunks at global multiples of kPhiloxWords, so
// an element is generated from the same Philox words wherever a shard begins; the first and last
// chunk may be partial.
#include "kernels/initialize.h"

#define HWY_TARGET_INCLUDE "kernels/cpu/initialize_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/initialize_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(NormalChunks);

void initialize_normal(const TensorView& y, const NormalInitializer& n, int threads) {
  const NormalRange range = {.to = y,
                             .first = n.first,
                             .last = n.first + y.elements(),
                             .key = n.key,
                             .mean = static_cast<float>(n.mean),
                             .deviation = static_cast<float>(n.deviation)};
  const auto draw = &HWY_DYNAMIC_DISPATCH(NormalChunks);
  const int64_t first = range.first / kPhiloxWords;
  const int64_t end = (range.last + kPhiloxWords - 1) / kPhiloxWords;
  parallel_ranges(end - first, kGrainElements / kPhiloxWords, threads,
                  [&](int64_t from, int64_t to) { draw(range, first + from, first + to); });
}

void fill(const TensorView& y, float value, int threads) {
  const Sink to(y);
  parallel_ranges(y.elements(), kGrainElements, threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to.set(i, value);
  });
}

}  // namespace tessera::kernels
