// Copies and sums of one row, for one instruction set.
#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

HWY_NOINLINE inline void CopyRow(Source from, Sink to, int64_t d) {
  for (int64_t c = 0; c < d; c += kLanes) StoreSome(LoadSome(from, c, d - c), to, c, d - c);
}

HWY_NOINLINE inline void AddRowTo(Source from, Sink sink, int64_t n) {
  for (int64_t c = 0; c < n; c += kLanes) {
    StoreSome(hn::Add(LoadSome(sink, c, n - c), LoadSome(from, c, n - c)), sink, c, n - c);
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
