// Losses of rows of logits: a block a row; then one block adds the rows up in order.
#include <cmath>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/numbers.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/tokens.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr size_t kSharedBytes = 2 * kWarp * sizeof(double);
constexpr int32_t kIgnored = -100;  // kIgnoredLabel of kernels/cross_entropy.h

__device__ bool is_label(const LossWork& a, int32_t label) { return label >= 0 && label < a.total; }
__device__ float scale_of(const LossWork& a) {
  return a.loss_scale == nullptr ? a.scale : a.scale * static_cast<float>(*a.loss_scale);
}

// f(column, logits, n) for the groups of this thread.
template <class F>
__device__ void each_group(const LossWork& a, int64_t row, int64_t columns, const F& f) {
  const Numbers z = {a.z + row * a.width, DType::kF32};
  float x[kGroup];
  for (int64_t c = static_cast<int64_t>(threadIdx.x) * kGroup; c < columns;
       c += kThreads * kGroup) {
    const int n = columns - c < kGroup ? static_cast<int>(columns - c) : kGroup;
    read_group(z, c, n, a.vector, x);
    f(c, x, n);
  }
}

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

// Both in one sweep: a row of a large vocabulary is more than the caches keep. A thread's sum is
// of the largest it has met so far, and shrinks when that rises; a NaN stays one.
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
  double sum[1] = {most == -INFINITY ? own : own * expf(most - all)};
  block_sums(sum, reinterpret_cast<double*>(shared_floats()));
  return {all, sum[0]};
}

// dz = factor * e^(z - most), less `scale` at the label; zero from `live` columns on.
__device__ void write_gradient(const LossWork& a, int64_t row, int64_t live, float most,
                               float factor, int64_t label, float scale) {
  const Numbers dz = a.dz;
  each_group(a, row, a.width, [&](int64_t c, const float(&x)[kGroup], int n) {
    float d[kGroup] = {};
    for (int k = 0; k < n; ++k) {
      if (c + k >= live) continue;
      d[k] = factor * expf(x[k] - most) - (c + k == label ? scale : 0.0f);
    }
    write_group(dz, row * a.width + c, n, a.vector, d);
  });
}

__global__ void loss_kernel(const LossWork a) {
  const int64_t row = blockIdx.x;
  const int32_t label = a.labels[row];
  if (label == kIgnored) {
    if (threadIdx.x == 0) a.losses[row] = 0;
    if (a.gradient) write_gradient(a, row, 0, 0, 0, -1, 0);
    return;
  }
  const float scale = scale_of(a);
  const auto [most, sum] = row_max_and_sum(a, row);
  if (threadIdx.x == 0) {
    const float own = is_label(a, label) ? a.z[row * a.width + label] : NAN;
    a.losses[row] = log(sum) + (static_cast<double>(most) - static_cast<double>(own));
  }
  __syncthreads();  // the label's logit is read before the gradient takes its place
  if (a.gradient)
    write_gradient(a, row, a.columns, most, static_cast<float>(scale / sum), label, scale);
}

__global__ void add_losses_kernel(const LossWork a) {
  double sums[2] = {0, 0};
  for (int64_t row = threadIdx.x; row < a.rows; row += kThreads)
    if (a.labels[row] != kIgnored) {
      sums[0] += a.losses[row];
      sums[1] += 1;
    }
  block_sums(sums, reinterpret_cast<double*>(shared_floats()));
  if (threadIdx.x == 0) {
    a.report[0] += sums[0];
    a.report[1] += sums[1];
  }
}

__global__ void logits_max_kernel(const LossWork a) {
  const int64_t row = blockIdx.x;
  const float most = row_max(a, row);
  if (threadIdx.x == 0) a.max[row] = most;
}

__global__ void logits_sums_kernel(const LossWork a) {
  const int64_t row = blockIdx.x;
  const float most = a.max[row];
  const double sum = row_sum(a, row, most);
  if (threadIdx.x != 0) return;
  const int32_t label = a.labels[row];
  const int64_t own = label - a.first;
  float at_label = 0;
  if (label != kIgnored && !is_label(a, label)) at_label = NAN;
  if (is_label(a, label) && own >= 0 && own < a.columns) at_label = a.z[row * a.width + own] - most;
  a.sums[2 * row] = static_cast<float>(sum);
  a.sums[2 * row + 1] = at_label;
}

__global__ void divided_gradient_kernel(const LossWork a) {
  const int64_t row = blockIdx.x;
  const int32_t label = a.labels[row];
  const float scale = scale_of(a);
  const bool counts = label != kIgnored;
  const float factor = counts ? scale / a.sums[2 * row] : 0.0f;
  write_gradient(a, row, counts ? a.columns : 0, a.max[row], factor,
                 is_label(a, label) ? label - a.first : -1, scale);
}

__global__ void add_divided_losses_kernel(const LossWork a) {
  double sums[2] = {0, 0};
  for (int64_t row = threadIdx.x; row < a.rows; row += kThreads)
    if (a.labels[row] != kIgnored) {
      sums[0] +=
          log(static_cast<double>(a.sums[2 * row])) - static_cast<double>(a.sums[2 * row + 1]);
      sums[1] += 1;
    }
  block_sums(sums, reinterpret_cast<double*>(shared_floats()));
  if (threadIdx.x == 0) {
    a.report[0] += sums[0];
    a.report[1] += sums[1];
  }
}

void launch_rows(const char* name, void (*kernel)(LossWork), int64_t rows, const LossWork& a,
                 Stream s) {
  launch(name, kernel, {.x = rows, .threads = kThreads, .shared_bytes = kSharedBytes}, s, a);
}

}  // namespace

void launch_loss(const LossWork& a, Stream s) {
  launch_rows("cross_entropy", loss_kernel, a.rows, a, s);
  if (a.report != nullptr) launch_rows("cross_entropy_sum", add_losses_kernel, 1, a, s);
}
void launch_logits_max(const LossWork& a, Stream s) {
  launch_rows("logits_max", logits_max_kernel, a.rows, a, s);
}
void launch_logits_sums(const LossWork& a, Stream s) {
  launch_rows("logits_sums", logits_sums_kernel, a.rows, a, s);
}
void launch_divided_loss(const LossWork& a, Stream s) {
  if (a.report != nullptr)
    launch_rows("divided_cross_entropy_sum", add_divided_losses_kernel, 1, a, s);
  if (a.gradient) launch_rows("divided_cross_entropy", divided_gradient_kernel, a.rows, a, s);
}

}  // namespace tessera::kernels::cuda
