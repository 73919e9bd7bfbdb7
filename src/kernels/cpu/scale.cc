#include "kernels/scale.h"

#define HWY_TARGET_INCLUDE "kernels/cpu/scale_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/scale_simd.h"

namespace tessera::kernels {

HWY_EXPORT(ScaleRange);

void launch(Cpu, const Launch& l, const ScaleArgs& a) {
  const TensorView &x = a.x, &y = a.y;
  CHECK(x.elements() == y.elements(), "{} scaled into {}", to_string(x.shape), to_string(y.shape));
  const Source from(x);
  const Sink to(y);
  const auto run = &HWY_DYNAMIC_DISPATCH(ScaleRange);
  parallel_ranges(x.elements(), kGrainElements, l.threads,
                  [&](int64_t begin, int64_t end) { run(from, a.factor, to, begin, end); });
}

}  // namespace tessera::kernels
