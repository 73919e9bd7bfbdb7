#include "kernels/gated_activation.h"

#define HWY_TARGET_INCLUDE "kernels/cpu/gated_activation_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/gated_activation_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(GatedForward);
HWY_EXPORT(GatedBackward);

void gated_activation(GateKind kind, const TensorView& x, const TensorView& y) {
  CHECK(x.shape[-1] == 2 && x.elements() == 2 * y.elements(), "gated_activation: x {}, y {}",
        to_string(x.shape), to_string(y.shape));
  const GatedRows a{kind, x, y};
  const auto run = &HWY_DYNAMIC_DISPATCH(GatedForward);
  parallel_rows(y.elements(), 1, [&](int64_t begin, int64_t end) { run(a, begin, end); });
}

void gated_activation_grad(const GatedActivationGrad& a) {
  CHECK(a.x.shape[-1] == 2 && a.x.elements() == 2 * a.dy.elements() &&
            a.dx.elements() == a.x.elements(),
        "gated_activation_grad: x {}, dy {}, dx {}", to_string(a.x.shape), to_string(a.dy.shape),
        to_string(a.dx.shape));
  const GatedGradRows g{a.kind, a.x, a.dy, a.dx};
  const auto run = &HWY_DYNAMIC_DISPATCH(GatedBackward);
  parallel_rows(a.dy.elements(), 1, [&](int64_t begin, int64_t end) { run(g, begin, end); });
}

}  // namespace tessera::kernels
