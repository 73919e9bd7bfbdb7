#include "kernels/softsign.h"

#include <cmath>

#include "kernels/cpu/operand.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

void launch(Cpu, const Launch& l, const SoftsignArgs& a) {
  const Source x(a.x);
  const Sink y(a.y);
  parallel_ranges(a.x.elements(), kGrainElements, l.threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y.set(i, x[i] / (1 + std::abs(x[i])));
  });
}

void launch(Cpu, const Launch& l, const SoftsignGradArgs& a) {
  const Source x(a.x), dy(a.dy);
  const Sink dx(a.dx);
  parallel_ranges(a.x.elements(), kGrainElements, l.threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float divisor = 1 + std::abs(x[i]);
      dx.set(i, dy[i] / (divisor * divisor));
    }
  });
}

}  // namespace tessera::kernels
