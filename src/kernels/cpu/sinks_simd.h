// The gradient of attention sinks, for one instruction set.
#include <cmath>

#include "kernels/cpu/simd.h"
#include "kernels/cpu/sink_head.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// Returns the sum over the rows of the sink's probability times <out, d_out>.
HWY_NOINLINE inline double SinkSum(const SinkHead& h) {
  double total = 0;
  for (int64_t i = 0; i < h.rows; ++i) {
    V sum = hn::Zero(F());
    for (int64_t c = 0; c < h.d; c += kLanes)
      sum = hn::MulAdd(LoadSome(h.out, i * h.stride + c, h.d - c),
                       LoadSome(h.d_out, i * h.stride + c, h.d - c), sum);
    const float dot = SumLanes(sum);
    total += static_cast<double>(std::exp(h.sink - h.lse[i]) * dot);
  }
  return total;
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
