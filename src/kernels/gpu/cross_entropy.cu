// Cross-entropy of whole rows of logits: one block per row; then one block adds the losses
// (kernels/cross_entropy.h). Per row, z is read twice: once for maximum and sum together, once for
// the gradient.
//
//   loss = ln sum_v e^(z_v - m) + (m - z_label),   dz = scale (e^(z - m) / sum - [v = label])
#include "kernels/gpu/loss_rows.h"

namespace tessera::kernels::gpu {
namespace {

// Computes maximum and sum in one pass (online softmax, Milakov & Gimelshein 2018), because a row
// of a large vocabulary exceeds the caches. Each thread's sum is relative to its own maximum so far
// and is rescaled when that rises; the block then brings all sums to the common maximum. NaN stays
// NaN.
struct MaxAndSum {
  float most;
  double sum;
};
__device__ MaxAndSum row_max_and_sum(const LossWork& a, int64_t row) {
  float most = -INFINITY, own = 0;
  each_group(a, row, a.columns, [&](int64_t, const float(&x)[kGroup], int n) {
    float raised = most;
    for (int k = 0; k < n; ++k) raised = fmaxf(raised, x[k]);
    if (raised > most) own *= expf(most - raised);
    most = raised;
    for (int k = 0; k < n; ++k) own += x[k] == -INFINITY ? 0.0f : expf(x[k] - most);
  });
  const float all = block_max(most, shared_floats());
  // A thread without columns, or with only -infinity, has the sum 0, and its factor would be NaN.
  double sum[1] = {most == -INFINITY ? own : own * expf(most - all)};
  block_sums(sum, reinterpret_cast<double*>(shared_floats()));
  return {all, sum[0]};
}

__global__ void loss_kernel(const LossWork a) {
  const int64_t row = blockIdx.x;
  const int32_t label = a.labels[row];
  if (label == kIgnoredLabel) {
    if (threadIdx.x == 0) a.losses[row] = 0;
    if (threadIdx.x == 0 && a.squares != nullptr) a.squares[row] = 0;
    if (a.gradient) write_gradient(a, row, 0, 0, {}, -1);
    return;
  }
  const auto [most, sum] = row_max_and_sum(a, row);
  const double top = most, log_sum = log(sum), lse = top + log_sum;
  if (threadIdx.x == 0) {
    const double own = is_label(a, label) ? capped(a, a.z[row * a.width + label]) : NAN;
    a.losses[row] = log_sum + (top - own);
    if (a.squares != nullptr) a.squares[row] = lse * lse;
  }
  __syncthreads();  // the label's logit is read before the gradient overwrites it
  if (a.gradient)
    write_gradient(a, row, a.columns, most, row_gradient(a.extras, lse, sum, scale_of(a), a.total),
                   label);
}

// One block: thread i adds rows i, i + 256, …, then the threads' sums are reduced in a fixed
// order, which does not depend on the GPU.
__global__ void add_losses_kernel(const LossWork a) {
  double sums[3] = {0, 0, 0};
  for (int64_t row = threadIdx.x; row < a.rows; row += kLossThreads)
    if (a.labels[row] != kIgnoredLabel) {
      sums[0] += a.losses[row];
      sums[1] += 1;
      if (a.squares != nullptr) sums[2] += a.squares[row];
    }
  add_to_report(a, sums);
}

}  // namespace

void launch_loss(const LossWork& a, Stream s) {
  launch_rows("cross_entropy", loss_kernel, a.rows, a, s);
  if (a.report != nullptr) launch_rows("cross_entropy_sum", add_losses_kernel, 1, a, s);
}

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

int64_t workspace_bytes(Gpu, const CrossEntropyArgs& a, int) {
  return bytes_for<double>(rows_of(a.logits) * numbers_per_row(a.extras));
}

void launch(Gpu, const Launch& l, const CrossEntropyArgs& c) {
  const int64_t columns = columns_of(c.logits);
  LossWork a = loss_work({c.logits, columns, 0, columns, c.soft_cap});
  a.labels = c.labels.as<int32_t>();
  a.losses = l.room<double>();
  a.extras = c.extras;
  a.squares = c.extras.z_loss > 0 ? a.losses + a.rows : nullptr;
  a.report = c.report;
  a.z_report = c.z_report;
  a.gradient = c.gradient;
  a.dz = numbers(c.logits);
  a.scale = c.gradient_scale;
  a.loss_scale = c.loss_scale;
  launch_loss(a, l.stream);
}

}  // namespace tessera::kernels
