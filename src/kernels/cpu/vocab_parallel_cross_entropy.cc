// Vocabulary-parallel cross-entropy on the CPU: three kernels with an all-reduce of the maximum and
// one of the sums between them (formulas in the header). The sum is exact in the sense of the whole
// row, because every rank subtracts the same global maximum.
#include "kernels/vocab_parallel_cross_entropy.h"

#include <cmath>
#include <limits>

#include "kernels/cross_entropy.h"

#define HWY_TARGET_INCLUDE "kernels/cpu/softmax_row_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/softmax_row_simd.h"

namespace tessera::kernels {

HWY_EXPORT(MaxOfRow);
HWY_EXPORT(NumberOfRow);
HWY_EXPORT(ExpSumOfRow);
HWY_EXPORT(GradientOfRow);

namespace {

int64_t rows_of(const DividedLogits& l) { return l.z.elements() / l.z.shape[-1]; }

// Returns this rank's column of a label, or -1.
int64_t column_of(const DividedLogits& l, int64_t row, int32_t label) {
  CHECK(label == kIgnoredLabel || (label >= 0 && label < l.total),
        "label {} of row {} with a vocabulary of {}", label, row, l.total);
  const int64_t column = label - l.first;
  return label != kIgnoredLabel && column >= 0 && column < l.columns ? column : -1;
}

}  // namespace

void launch(Cpu, const Launch& options, const LogitsMaxArgs& a) {
  const DividedLogits& l = a.logits;
  const auto run = &HWY_DYNAMIC_DISPATCH(MaxOfRow);
  const int64_t width = l.z.shape[-1];
  parallel_rows(rows_of(l), width, options.threads, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      a.max.f32()[n] = l.columns > 0 ? run(l.z.f32() + n * width, l.columns, l.soft_cap)
                                     : -std::numeric_limits<float>::infinity();
  });
}

void launch(Cpu, const Launch& options, const LogitsSumsArgs& a) {
  const DividedLogits& l = a.logits;
  const TensorView &labels = a.labels, &sums = a.sums;
  const auto run = &HWY_DYNAMIC_DISPATCH(ExpSumOfRow);
  const auto number = &HWY_DYNAMIC_DISPATCH(NumberOfRow);
  const int64_t width = l.z.shape[-1];
  CHECK(labels.elements() == rows_of(l) && sums.elements() == 2 * rows_of(l),
        "logits_sums: logits {}, labels {}", to_string(l.z.shape), to_string(labels.shape));
  parallel_rows(rows_of(l), width, options.threads, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      float* const z = l.z.f32() + n * width;
      const float most = a.max.f32()[n];
      const int64_t own = column_of(l, n, labels.as<int32_t>()[n]);
      sums.f32()[2 * n] = rounded(run(z, l.columns, most, l.soft_cap));
      sums.f32()[2 * n + 1] = own >= 0 ? number(z, own, l.soft_cap) - most : 0.0f;
    }
  });
}

void launch(Cpu, const Launch& options, const LogitsSumsGradArgs& a) {
  const DividedLogits& l = a.logits;
  const int64_t width = l.z.shape[-1], rows = rows_of(l);
  const auto run = &HWY_DYNAMIC_DISPATCH(GradientOfRow);
  parallel_rows(rows, width, options.threads, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      float* const z = l.z.f32() + n * width;
      const float slope = a.d_sums.f32()[2 * n], at_label = a.d_sums.f32()[2 * n + 1];
      const bool counts = slope != 0 || at_label != 0;  // positions without a loss have neither
      if (counts)
        run(z, l.columns, a.max.f32()[n], {slope, 0, -at_label}, l.soft_cap,
            column_of(l, n, a.labels.as<int32_t>()[n]));
      std::fill(z + (counts ? l.columns : 0), z + width, 0.0f);
    }
  });
}

void launch(Cpu, const Launch& options, const VocabParallelCrossEntropyArgs& a) {
  const DividedLogits& l = a.logits;
  const int64_t width = l.z.shape[-1], rows = rows_of(l);
  const auto* labels = a.labels.as<int32_t>();
  // The report needs only the reduced sums, so one rank computes it, serially and in the order of
  // rows.
  for (int64_t n = 0; a.report != nullptr && n < rows; ++n) {
    if (labels[n] == kIgnoredLabel) continue;
    const double sum = a.sums.f32()[2 * n], own = a.sums.f32()[2 * n + 1];
    const double log_sum = std::log(sum), lse = a.max.f32()[n] + log_sum;
    a.report[0] += log_sum - own;
    a.report[1] += 1;
    if (a.z_report != nullptr) *a.z_report += static_cast<double>(a.extras.z_loss) * lse * lse;
  }
  if (!a.gradient) return;
  const auto run = &HWY_DYNAMIC_DISPATCH(GradientOfRow);
  const float scale = scaled_by(a.gradient_scale, a.loss_scale);
  parallel_rows(rows, width, options.threads, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      float* const z = l.z.f32() + n * width;
      const bool counts = labels[n] != kIgnoredLabel;
      const int64_t own = column_of(l, n, labels[n]);  // -1: another rank has the label
      const double most = a.max.f32()[n], sum = a.sums.f32()[2 * n];
      const double lse = a.extras.z_loss > 0 ? most + std::log(sum) : 0.0;
      if (counts)
        run(z, l.columns, a.max.f32()[n], row_gradient(a.extras, lse, sum, scale, l.total),
            l.soft_cap, own);
      // Padding columns and ignored rows must be zero: the gradient GEMMs read the full width.
      std::fill(z + (counts ? l.columns : 0), z + width, 0.0f);
    }
  });
}

}  // namespace tessera::kernels
