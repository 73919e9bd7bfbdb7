#include "kernels/fill.h"

#include <cstring>

#include "kernels/cpu/operand.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

void launch(Cpu, const Launch& l, const ClearArgs& a) {
  const TensorView& y = a.y;
  parallel_ranges(y.bytes(), 4 * kGrainElements, l.threads, [&](int64_t begin, int64_t end) {
    std::memset(y.as<char>() + begin, 0, end - begin);
  });
}

void fill(const TensorView& y, float value, int threads) {
  const Sink to(y);
  parallel_ranges(y.elements(), kGrainElements, threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to.set(i, value);
  });
}

}  // namespace tessera::kernels
