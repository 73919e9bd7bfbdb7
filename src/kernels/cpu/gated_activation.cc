// Gated activations on the CPU: divides the (gate, value) pairs among threads.
#include "kernels/gated_activation.h"

#define HWY_TARGET_INCLUDE "kernels/cpu/gated_activation_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/gated_activation_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(GatedForward);
HWY_EXPORT(GatedBackward);

void launch(Cpu, const Launch& l, const GatedActivationArgs& a) {
  CHECK(a.x.shape[-1] == 2 && a.x.elements() == 2 * a.y.elements(), "gated_activation: x {}, y {}",
        to_string(a.x.shape), to_string(a.y.shape));
  const GatedRows g{a.kind, a.x, a.y};
  const auto run = &HWY_DYNAMIC_DISPATCH(GatedForward);
  parallel_rows(a.y.elements(), 1, l.threads,
                [&](int64_t begin, int64_t end) { run(g, begin, end); });
}

void launch(Cpu, const Launch& l, const GatedActivationGradArgs& a) {
  CHECK(a.x.shape[-1] == 2 && a.x.elements() == 2 * a.dy.elements() &&
            a.dx.elements() == a.x.elements(),
        "gated_activation_grad: x {}, dy {}, dx {}", to_string(a.x.shape), to_string(a.dy.shape),
        to_string(a.dx.shape));
  const GatedGradRows g{a.kind, a.x, a.dy, a.dx};
  const auto run = &HWY_DYNAMIC_DISPATCH(GatedBackward);
  parallel_rows(a.dy.elements(), 1, l.threads,
                [&](int64_t begin, int64_t end) { run(g, begin, end); });
}

}  // namespace tessera::kernels
