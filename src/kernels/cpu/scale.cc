#include "kernels/scale.h"

#define HWY_TARGET_INCLUDE "kernels/cpu/scale_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/scale_simd.h"

namespace tessera::kernels {

HWY_EXPORT(ScaleRange);
HWY_EXPORT(CapRange);

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

void launch(Cpu, const Launch& l, const ScaleArgs& a) {
  for_ranges(l, a.x, a.factor, a.y, &HWY_DYNAMIC_DISPATCH(ScaleRange));
}

void launch(Cpu, const Launch& l, const SoftCapArgs& a) {
  for_ranges(l, a.x, a.cap, a.y, &HWY_DYNAMIC_DISPATCH(CapRange));
}

}  // namespace tessera::kernels
