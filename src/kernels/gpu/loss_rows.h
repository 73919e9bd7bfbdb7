// Device code that the loss kernels share: each block handles one row of logits.
#pragma once

#include <cmath>

#include "kernels/cross_entropy.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/loss.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/reduce.h"
#include "kernels/gpu/views.h"
#include "kernels/vocab_parallel_cross_entropy.h"

namespace tessera::kernels::gpu {

constexpr int kLossThreads = 256;
constexpr size_t kLossSharedBytes = 3 * kWarp * sizeof(double);

__device__ inline bool is_label(const LossWork& a, int32_t label) {
  return label >= 0 && label < a.total;
}
__device__ inline float scale_of(const LossWork& a) {
  return a.loss_scale == nullptr ? a.scale : a.scale * rounded(*a.loss_scale);
}

__device__ inline float capped(const LossWork& a, float z) {
  return a.soft_cap > 0 ? a.soft_cap * tanhf(z / a.soft_cap) : z;
}
// Returns the derivative of the soft cap at the capped value z.
__device__ inline float cap_slope(const LossWork& a, float z) {
  const float share = a.soft_cap > 0 ? z / a.soft_cap : 0.0f;
  return 1 - share * share;
}

// Calls f(column, logits, n) for the groups of this thread; logits are capped.
template <class F>
__device__ void each_group(const LossWork& a, int64_t row, int64_t columns, const F& f) {
  const Numbers z = {a.z + row * a.width, DType::kF32};
  float x[kGroup];
  for (int64_t c = threadIdx.x * kGroup; c < columns; c += kLossThreads * kGroup) {
    const int n = group_size(columns - c);
    read_group(z, c, n, a.vector, x);
    if (a.soft_cap > 0)
      for (float& each : x) each = capped(a, each);
    f(c, x, n);
  }
}

// dz = slope * e^(z - most) - everywhere, less `at_label` at the label, times the cap's slope; zero
// from `live` columns on.
__device__ inline void write_gradient(const LossWork& a, int64_t row, int64_t live, float most,
                                      const RowGradient& g, int64_t label) {
  const Numbers dz = a.dz;
  each_group(a, row, a.width, [&](int64_t c, const float(&x)[kGroup], int n) {
    float d[kGroup] = {};
    for (int k = 0; k < n; ++k) {
      if (c + k >= live) continue;
      d[k] = g.slope * expf(x[k] - most) - g.everywhere - (c + k == label ? g.at_label : 0.0f);
      d[k] *= cap_slope(a, x[k]);
    }
    write_group(dz, row * a.width + c, n, a.vector, d);
  });
}

// Adds a block's sums of losses, rows and lse^2 to the report; every thread has its own sums.
__device__ inline void add_to_report(const LossWork& a, double (&sums)[3]) {
  block_sums(sums, reinterpret_cast<double*>(shared_floats()));
  if (threadIdx.x != 0) return;
  a.report[0] += sums[0];
  a.report[1] += sums[1];
  if (a.z_report != nullptr) *a.z_report += static_cast<double>(a.extras.z_loss) * sums[2];
}

inline LossWork loss_work(const DividedLogits& l) {
  LossWork a;
  a.z = l.z.f32();
  a.width = columns_of(l.z);
  a.rows = rows_of(l.z);
  a.columns = l.columns;
  a.first = l.first;
  a.total = l.total;
  a.soft_cap = l.soft_cap;
  a.vector = a.width % kGroup == 0 && aligned(a.z);
  return a;
}

inline void launch_rows(const char* name, void (*kernel)(LossWork), int64_t rows, const LossWork& a,
                        Stream s) {
  launch(name, kernel, {.x = rows, .threads = kLossThreads, .shared_bytes = kLossSharedBytes}, s,
         a);
}

}  // namespace tessera::kernels::gpu
