// Vocabulary-parallel cross-entropy (kernels/vocab_parallel_cross_entropy.h): each rank has some
// columns of every row. Three kernels, one block per row, with all-reduces between them:
//
//   logits_max   local maximum       → all-reduce max → m
//   logits_sums  sum e^(z - m), and  → all-reduce sum → s
//                z_label - m on the rank that has the label, 0 on the others
//   loss = ln s_0 - s_1,  dz = scale (e^(z - m) / s_0 - [v = label])
//
// Every rank subtracts the same global maximum, so the sums can simply be added.
#include "kernels/gpu/loss_rows.h"

namespace tessera::kernels::gpu {
namespace {

__device__ float row_max(const LossWork& a, int64_t row) {
  float most = -INFINITY;
  each_group(a, row, a.columns, [&](int64_t, const float(&x)[kGroup], int n) {
    for (int k = 0; k < n; ++k) most = fmaxf(most, x[k]);
  });
  return block_max(most, shared_floats());
}

__device__ double row_sum(const LossWork& a, int64_t row, float most) {
  float own = 0;
  each_group(a, row, a.columns, [&](int64_t, const float(&x)[kGroup], int n) {
    for (int k = 0; k < n; ++k) own += expf(x[k] - most);
  });
  double sum[1] = {own};
  block_sums(sum, reinterpret_cast<double*>(shared_floats()));
  return sum[0];
}

__global__ void logits_max_kernel(const LossWork a) {
  const int64_t row = blockIdx.x;
  const float most = row_max(a, row);
  if (threadIdx.x == 0) a.max[row] = most;
}

// Only the rank that owns the label's column contributes z_label - m; the others add zero.
__global__ void logits_sums_kernel(const LossWork a) {
  const int64_t row = blockIdx.x;
  const float most = a.max[row];
  const double sum = row_sum(a, row, most);
  if (threadIdx.x != 0) return;
  const int32_t label = a.labels[row];
  const int64_t own = label - a.first;
  float at_label = 0;
  if (label != kIgnoredLabel && !is_label(a, label)) at_label = NAN;
  if (is_label(a, label) && own >= 0 && own < a.columns)
    at_label = capped(a, a.z[row * a.width + own]) - most;
  a.sums[2 * row] = rounded(sum);
  a.sums[2 * row + 1] = at_label;
}

// a.sums has the gradients of the sums.
__global__ void logits_sums_grad_kernel(const LossWork a) {
  const int64_t row = blockIdx.x;
  const float slope = a.sums[2 * row], at_label = a.sums[2 * row + 1];
  const int32_t label = a.labels[row];
  const bool counts = slope != 0 || at_label != 0;  // positions without a loss have neither
  write_gradient(a, row, counts ? a.columns : 0, a.max[row], RowGradient{slope, 0, -at_label},
                 is_label(a, label) ? label - a.first : -1);
}

__global__ void divided_gradient_kernel(const LossWork a) {
  const int64_t row = blockIdx.x;
  const int32_t label = a.labels[row];
  const bool counts = label != kIgnoredLabel;
  const double most = a.max[row], sum = a.sums[2 * row];
  const double lse = a.extras.z_loss > 0 ? most + log(sum) : 0.0;
  write_gradient(a, row, counts ? a.columns : 0, a.max[row],
                 row_gradient(a.extras, lse, sum, scale_of(a), a.total),
                 is_label(a, label) ? label - a.first : -1);
}

__global__ void add_divided_losses_kernel(const LossWork a) {
  double sums[3] = {0, 0, 0};
  for (int64_t row = threadIdx.x; row < a.rows; row += kLossThreads)
    if (a.labels[row] != kIgnoredLabel) {
      const double sum = a.sums[2 * row], own = a.sums[2 * row + 1];
      const double log_sum = log(sum), lse = a.max[row] + log_sum;
      sums[0] += log_sum - own;
      sums[1] += 1;
      sums[2] += lse * lse;
    }
  add_to_report(a, sums);
}

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const LogitsMaxArgs& m) {
  LossWork a = loss_work(m.logits);
  a.max = m.max.f32();
  launch_rows("logits_max", logits_max_kernel, a.rows, a, l.stream);
}

void launch(Gpu, const Launch& l, const LogitsSumsArgs& m) {
  LossWork a = loss_work(m.logits);
  a.max = m.max.f32();
  a.labels = m.labels.as<int32_t>();
  a.sums = m.sums.f32();
  launch_rows("logits_sums", logits_sums_kernel, a.rows, a, l.stream);
}

void launch(Gpu, const Launch& l, const LogitsSumsGradArgs& d) {
  LossWork a = loss_work(d.logits);
  a.max = d.max.f32();
  a.labels = d.labels.as<int32_t>();
  a.sums = d.d_sums.f32();
  a.dz = numbers(d.logits.z);
  launch_rows("logits_sums_grad", logits_sums_grad_kernel, a.rows, a, l.stream);
}

void launch(Gpu, const Launch& l, const VocabParallelCrossEntropyArgs& d) {
  LossWork a = loss_work(d.logits);
  a.max = d.max.f32();
  a.sums = d.sums.f32();
  a.labels = d.labels.as<int32_t>();
  a.report = d.report;
  a.gradient = d.gradient;
  a.extras = d.extras;
  a.z_report = d.z_report;
  a.dz = numbers(d.logits.z);
  a.scale = d.gradient_scale;
  a.loss_scale = d.loss_scale;
  if (a.report != nullptr)
    launch_rows("vocab_parallel_cross_entropy_sum", add_divided_losses_kernel, 1, a, l.stream);
  if (a.gradient)
    launch_rows("vocab_parallel_cross_entropy", divided_gradient_kernel, a.rows, a, l.stream);
}

}  // namespace tessera::kernels
