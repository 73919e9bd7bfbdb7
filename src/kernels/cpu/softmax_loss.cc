// Cross-entropy of rows of logits on the CPU. Rows are independent and run in parallel, each
// leaving its loss in an array; the losses are then added in f64 in the order of rows, so the bits
// do not depend on the number of threads.
#include "kernels/cpu/softmax_loss.h"

#define HWY_TARGET_INCLUDE "kernels/cpu/softmax_loss_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/softmax_loss_simd.h"

namespace tessera::kernels {

HWY_EXPORT(LossOfRow);

void loss_of_rows(const LossRows& a, double* report, double* z_report, int threads) {
  // Labels are checked before the parallel region, which must not abort or throw half-way.
  for (int64_t row = 0; row < a.rows; ++row) {
    const int32_t label = a.labels[row];
    CHECK(label == kIgnoredLabel || (label >= 0 && label < a.columns),
          "label {} of row {} with a vocabulary of {}", label, row, a.columns);
  }
  const auto run = &HWY_DYNAMIC_DISPATCH(LossOfRow);
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t row = 0; row < a.rows; ++row) run(a, row);
  for (int64_t row = 0; report != nullptr && row < a.rows; ++row) {
    if (a.labels[row] == kIgnoredLabel) continue;
    report[0] += a.losses[row];
    report[1] += 1;
    if (a.squares != nullptr && z_report != nullptr)
      *z_report += static_cast<double>(a.extras.z_loss) * a.squares[row];
  }
}

int64_t workspace_bytes(Cpu, const CrossEntropyArgs& a, int) {
  return bytes_for<double>(rows_of(a.logits) * numbers_per_row(a.extras));
}

void launch(Cpu, const Launch& l, const CrossEntropyArgs& a) {
  const int64_t columns = a.logits.shape[-1], rows = a.logits.elements() / columns;
  CHECK(a.labels.dtype == DType::kI32 && a.labels.elements() == rows,
        "cross_entropy: logits {}, labels {}", to_string(a.logits.shape),
        to_string(a.labels.shape));
  auto* const losses = l.room<double>();
  loss_of_rows({.logits = a.logits.f32(),
                .labels = a.labels.as<int32_t>(),
                .losses = losses,
                .squares = a.extras.z_loss > 0 ? losses + rows : nullptr,
                .rows = rows,
                .columns = columns,
                .gradient = a.gradient,
                .soft_cap = a.soft_cap,
                .extras = a.extras,
                .gradient_scale = scaled_by(a.gradient_scale, a.loss_scale)},
               a.report, a.z_report, l.threads);
}

}  // namespace tessera::kernels
