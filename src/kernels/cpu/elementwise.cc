// Elementwise kernels on the CPU. Each thread computes a contiguous range. Elements are
// independent, so results do not depend on the number of threads.
#include "kernels/elementwise.h"

#include <cstring>

#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/elementwise_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(CastRange);
HWY_EXPORT(CapRange);
HWY_EXPORT(ScaleRange);

void launch(Cpu, const Launch& l, const ClearArgs& a) {
  const TensorView& y = a.y;
  parallel_ranges(y.bytes(), 4 * kGrainElements, l.threads, [&](int64_t begin, int64_t end) {
    std::memset(y.as<char>() + begin, 0, end - begin);
  });
}

void launch(Cpu, const Launch&, const CopyArgs& a) {
  std::memcpy(a.to.data, a.from.data, a.to.bytes());
}

void launch(Cpu, const Launch&, const CopyRowsArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r)
    std::memcpy(static_cast<std::byte*>(a.to) + r * a.to_pitch,
                static_cast<const std::byte*>(a.from) + r * a.from_pitch, a.bytes);
}

namespace {

// y = run(x, by), element by element.
template <class Run>
void for_ranges(const Launch& l, const TensorView& x, float by, const TensorView& y, Run run) {
  CHECK(x.elements() == y.elements(), "{} scaled into {}", to_string(x.shape), to_string(y.shape));
  const Source from(x);
  const Sink to(y);
  parallel_ranges(x.elements(), kGrainElements, l.threads,
                  [&](int64_t begin, int64_t end) { run(from, by, to, begin, end); });
}

}  // namespace

void launch(Cpu, const Launch& l, const CastArgs& a) {
  const TensorView &x = a.x, &y = a.y;
  CHECK(x.elements() == y.elements(), "cast of {} to {}", to_string(x.shape), to_string(y.shape));
  const Source from(x);
  const Sink to(y);
  const auto convert = &HWY_DYNAMIC_DISPATCH(CastRange);
  parallel_ranges(x.elements(), kGrainElements, l.threads,
                  [&](int64_t begin, int64_t end) { convert(from, to, begin, end); });
}

void launch(Cpu, const Launch& l, const ScaleArgs& a) {
  for_ranges(l, a.x, a.factor, a.y, &HWY_DYNAMIC_DISPATCH(ScaleRange));
}

void launch(Cpu, const Launch& l, const SoftCapArgs& a) {
  for_ranges(l, a.x, a.cap, a.y, &HWY_DYNAMIC_DISPATCH(CapRange));
}

}  // namespace tessera::kernels
