// Dropout on the CPU. The mask is a function of (key, sample, element), computed by Philox, so the
// backward regenerates it; dropout_grad is for programs that store the mask.
#include "kernels/dropout.h"

#define HWY_TARGET_INCLUDE "kernels/cpu/dropout_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/dropout_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(DropRows);
HWY_EXPORT(DropBack);

void launch(Cpu, const Launch& l, const DropoutArgs& a) {
  const TensorView &x = a.x, &samples = a.samples, &y = a.y, &mask = a.mask;
  const Dropout& d = a.dropout;
  CHECK(x.shape.rank() == 3 && y.elements() == x.elements() && samples.dtype == DType::kI64 &&
            samples.elements() == x.shape[0],
        "dropout: x {}, y {}, {} samples", to_string(x.shape), to_string(y.shape),
        samples.elements());
  CHECK(d.probability >= 0 && d.probability < 1, "dropout with probability {}", d.probability);
  DropoutRows rows{.x = x,
                   .y = y,
                   .samples = samples.as<int64_t>(),
                   .rows = x.shape[1],
                   .d = x.shape[2],
                   .window = a.window,
                   .key = mask_key(d),
                   .threshold = dropout_threshold(d.probability),
                   .scale = 1.0f / (1.0f - d.probability)};
  if (mask) {
    CHECK(mask.dtype == DType::kU8 && mask.elements() == x.elements(), "dropout: mask {} {}",
          name_of(mask.dtype), to_string(mask.shape));
    rows.mask_out = mask.as<uint8_t>();
  }
  if (rows.window.width == 0) rows.window.width = rows.d;
  const auto drop = &HWY_DYNAMIC_DISPATCH(DropRows);
  parallel_rows(x.shape[0] * rows.rows, rows.d, l.threads,
                [&](int64_t begin, int64_t end) { drop(rows, begin, end); });
}

void launch(Cpu, const Launch& l, const DropoutGradArgs& a) {
  const TensorView &dy = a.dy, &mask = a.mask, &dx = a.dx;
  CHECK(mask.dtype == DType::kU8 && mask.elements() == dy.elements() &&
            dx.elements() == dy.elements(),
        "dropout_grad: dy {}, mask {}, dx {}", to_string(dy.shape), to_string(mask.shape),
        to_string(dx.shape));
  const Source from(dy);
  const Sink to(dx);
  const auto drop = &HWY_DYNAMIC_DISPATCH(DropBack);
  parallel_ranges(dy.elements(), kGrainElements, l.threads, [&](int64_t begin, int64_t end) {
    drop(from, mask.as<uint8_t>(), 1.0f / (1.0f - a.probability), to, begin, end);
  });
}

}  // namespace tessera::kernels
