// The gradient of attention sinks on the CPU. A sink is a logit per head that takes part in the
// softmax and has no value, so its share p = e^(sink − lse) of the probability adds nothing to the
// output. With D = dout · out of a query, the gradient of its logit is −p D, and that of a sink is
// the sum over samples and queries. The saved lse and the output suffice; no scores are computed
// again. One thread sums a head in f64, in the order of samples and queries, so the bits do not
// depend on the number of threads.
#include <cmath>

#include "kernels/attention.h"

#define HWY_TARGET_INCLUDE "kernels/cpu/sinks_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/sinks_simd.h"

namespace tessera::kernels {

HWY_EXPORT(SinkSum);

void launch(Cpu, const Launch& l, const SinksGradArgs& a) {
  const Shape& s = a.out.shape;
  const int64_t B = s[0], T = s[a.by_head ? 2 : 1], H = s[a.by_head ? 1 : 2], D = s[3];
  CHECK(s.rank() == 4 && a.d_out.elements() == a.out.elements() && a.sinks.elements() == H &&
            a.d_sinks.elements() == H && a.lse.elements() == B * T * H,
        "sinks {} of {} with lse {}", to_string(a.sinks.shape), to_string(s),
        to_string(a.lse.shape));
  const Source sinks = a.sinks, out = a.out, d_out = a.d_out;
  const Sink to = a.d_sinks;
  const auto sum = &HWY_DYNAMIC_DISPATCH(SinkSum);
  parallel_tasks(H, l.threads, [&](int64_t h, int) {
    double total = 0;
    for (int64_t b = 0; b < B; ++b) {
      const int64_t at = a.by_head ? (b * H + h) * T * D : (b * T * H + h) * D;
      const int64_t stride = a.by_head ? D : H * D;
      total += sum({sinks[h], a.lse.f32() + (b * H + h) * T, out + at, d_out + at, T, D, stride});
    }
    to.set(h, Source(to)[h] - rounded(total));
  });
}

}  // namespace tessera::kernels
