#include "kernels/dropout.h"

#define HWY_TARGET_INCLUDE "kernels/cpu/dropout_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/dropout_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(DropRows);

void dropout(const TensorView& x, const TensorView& samples, const Dropout& d, const TensorView& y,
             const DropoutWindow& window) {
  CHECK(x.shape.rank() == 3 && y.elements() == x.elements() && samples.dtype == DType::kI64 &&
            samples.elements() == x.shape[0],
        "dropout of {} to {} for {} samples", to_string(x.shape), to_string(y.shape),
        samples.elements());
  CHECK(d.probability >= 0 && d.probability < 1, "dropout with probability {}", d.probability);
  DropoutRows a{.x = x,
                .y = y,
                .samples = samples.as<int64_t>(),
                .rows = x.shape[1],
                .d = x.shape[2],
                .window = window,
                .key = mask_key(d),
                .threshold = dropout_threshold(d.probability),
                .scale = 1.0f / (1.0f - d.probability)};
  if (a.window.width == 0) a.window.width = a.d;
  const auto drop = &HWY_DYNAMIC_DISPATCH(DropRows);
  parallel_rows(x.shape[0] * a.rows, a.d, [&](int64_t begin, int64_t end) { drop(a, begin, end); });
}

}  // namespace tessera::kernels
