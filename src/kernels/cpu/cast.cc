#include "kernels/cast.h"

#define HWY_TARGET_INCLUDE "kernels/cpu/cast_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/cast_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(CastRange);

void launch(Cpu, const Launch& l, const CastArgs& a) {
  const TensorView &x = a.x, &y = a.y;
  CHECK(x.elements() == y.elements(), "cast of {} to {}", to_string(x.shape), to_string(y.shape));
  const Source from(x);
  const Sink to(y);
  const auto convert = &HWY_DYNAMIC_DISPATCH(CastRange);
  parallel_ranges(x.elements(), kGrainElements, l.threads,
                  [&](int64_t begin, int64_t end) { convert(from, to, begin, end); });
}

}  // namespace tessera::kernels
