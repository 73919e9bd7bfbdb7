// Layer norm and RMS norm on the GPU (kernels/norm.h). Forward: one block per row, which is read at
// most three times: sum, deviations, output; the second and third read hit the cache. The variance
// is the mean square of deviations from the mean; E[x²] - E[x]² would cancel.
//
// Gradient, for rows of at most 4,096 columns, in one pass over x and dy:
//
//              columns, 8 per thread
//   stripe 0   ██████████████████   one block; dx row by row, partial dgain and dbias in registers
//   stripe 1   ██████████████████   one block
//      ⋮                            then launch_column_join adds the stripes in order
//
// Wider rows need two passes: column_sums.cu for dgain and dbias, then one block per row for dx.
// All sums have a fixed order, so the bits are the same in every run.
#include "kernels/gpu/column_sums.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/reduce.h"
#include "kernels/gpu/views.h"
#include "kernels/norm.h"

namespace tessera::kernels::gpu {
namespace {

constexpr size_t kSumsBytes = 2 * kWarp * sizeof(float);

// Returns the threads of a block for rows with this number of columns.
int threads_for(int64_t columns) {
  const int64_t warps = blocks_for(columns, kWarp * kGroup);
  return static_cast<int>(warps < 1 ? 1 : warps > 8 ? 8 : warps) * kWarp;
}

// Calls f(column, n) for each group of a row that belongs to this thread.
template <class F>
__device__ void each_group(const Groups& g, const F& f) {
  for (int64_t c = static_cast<int64_t>(threadIdx.x) * kGroup; c < g.columns;
       c += static_cast<int64_t>(blockDim.x) * kGroup)
    f(c, g.columns - c < kGroup ? static_cast<int>(g.columns - c) : kGroup);
}

// Stores the group's sum (if there are terms) and returns what the statistics sum over: the
// elements, or for RMS norm their squares, as rounded by the store.
__device__ float make_sum(const SumRows& a, int64_t row, int64_t c, int n, bool centered) {
  float sum[kGroup] = {}, x[kGroup];
  const int64_t at = row * a.groups.columns + c;
  for (int t = 0; t < a.terms; ++t) {
    read_group(a.term[t], at, n, a.groups.vector, x);
    for (int k = 0; k < kGroup; ++k) sum[k] += x[k];
  }
  for (int t = 0; t < a.biases; ++t) {
    read_group(a.bias[t], c, n, a.groups.vector, x);
    for (int k = 0; k < kGroup; ++k) sum[k] += x[k];
  }
  if (a.terms > 0)
    write_group(a.out, at, n, a.groups.vector, sum);
  else
    read_group(a.out, at, n, a.groups.vector, sum);
  float total = 0;
  for (int k = 0; k < kGroup; ++k) {
    if (k >= n) break;
    const float v = as_stored(sum[k], a.out.type);
    total += centered ? v : v * v;
  }
  return total;
}

// The norm of `sum.out`, which is computed first if there are terms.
struct NormRows {
  SumRows sum;
  bool centered = true;
  float epsilon = 0, offset = 0;
  int outputs = 0;
  Numbers gain[kMaxNormOutputs], bias[kMaxNormOutputs], y[kMaxNormOutputs];
  float* stats = nullptr;
};

__global__ void norm_kernel(const NormRows a) {
  const Groups& g = a.sum.groups;
  const int64_t row = blockIdx.x;
  const auto columns = static_cast<float>(g.columns);
  float total[1] = {0};
  each_group(g, [&](int64_t c, int n) { total[0] += make_sum(a.sum, row, c, n, a.centered); });
  block_sums(total, shared_floats());
  float mean = 0, variance = total[0] / columns, x[kGroup];
  if (a.centered) {
    mean = total[0] / columns;
    float squares[1] = {0};
    each_group(g, [&](int64_t c, int n) {
      read_group(a.sum.out, row * g.columns + c, n, g.vector, x);
      for (int k = 0; k < kGroup; ++k)
        if (k < n) squares[0] += (x[k] - mean) * (x[k] - mean);
    });
    block_sums(squares, shared_floats());
    variance = squares[0] / columns;
  }
  const float rstd = 1.0f / sqrtf(variance + a.epsilon);
  if (a.stats != nullptr && threadIdx.x == 0) {
    a.stats[2 * row] = mean;
    a.stats[2 * row + 1] = rstd;
  }
  each_group(g, [&](int64_t c, int n) {
    float gain[kGroup], bias[kGroup] = {}, y[kGroup];
    read_group(a.sum.out, row * g.columns + c, n, g.vector, x);
    for (int o = 0; o < a.outputs; ++o) {
      read_group(a.gain[o], c, n, g.vector, gain);
      if (a.bias[o].data != nullptr) read_group(a.bias[o], c, n, g.vector, bias);
      for (int k = 0; k < kGroup; ++k) {
        const float b = a.bias[o].data != nullptr ? bias[k] : 0.0f;
        y[k] = (x[k] - mean) * rstd * (gain[k] + a.offset) + b;
      }
      write_group(a.y[o], row * g.columns + c, n, g.vector, y);
    }
  });
}

struct NormGradRows {
  Groups groups;
  bool centered = true, accumulate = false;
  float offset = 0;
  Numbers x, gain, dy, dx;
  const float* stats = nullptr;
};

struct GradTerms {
  float g[kGroup], xh[kGroup];
};

// The terms of dx for a group: g = dy gain, xh = (x - mean) rstd.
__device__ GradTerms grad_terms(const NormGradRows& a, int64_t row, int64_t c, int n) {
  const Groups& g = a.groups;
  const float mean = a.stats[2 * row], rstd = a.stats[2 * row + 1];
  GradTerms t;
  float gain[kGroup];
  read_group(a.dy, row * g.columns + c, n, g.vector, t.g);
  read_group(a.x, row * g.columns + c, n, g.vector, t.xh);
  read_group(a.gain, c, n, g.vector, gain);
  for (int k = 0; k < kGroup; ++k) {
    t.g[k] *= gain[k] + a.offset;
    t.xh[k] = (t.xh[k] - mean) * rstd;
  }
  return t;
}

__global__ void norm_grad_kernel(const NormGradRows a) {
  const Groups& g = a.groups;
  const int64_t row = blockIdx.x;
  const float rstd = a.stats[2 * row + 1];
  float sums[2] = {0, 0};
  each_group(g, [&](int64_t c, int n) {
    const GradTerms t = grad_terms(a, row, c, n);
    for (int k = 0; k < kGroup; ++k) {
      if (k >= n) break;
      sums[0] += t.g[k];
      sums[1] += t.g[k] * t.xh[k];
    }
  });
  block_sums(sums, shared_floats());
  const float mean_g = a.centered ? sums[0] / static_cast<float>(g.columns) : 0.0f;
  const float mean_gx = sums[1] / static_cast<float>(g.columns);
  each_group(g, [&](int64_t c, int n) {
    const GradTerms t = grad_terms(a, row, c, n);
    float dx[kGroup] = {};
    if (a.accumulate) read_group(a.dx, row * g.columns + c, n, g.vector, dx);
    for (int k = 0; k < kGroup; ++k) dx[k] += rstd * (t.g[k] - mean_g - t.xh[k] * mean_gx);
    write_group(a.dx, row * g.columns + c, n, g.vector, dx);
  });
}

// dx and the sums over rows in one pass: dgain[c] += sum_n dy xh, dbias[c] += sum_n dy. For rows of
// up to kMostSweptColumns.
constexpr int64_t kMostSweptColumns = 4096;
struct NormGradSweep {
  NormGradRows rows;
  Numbers dgain, dbias;       // no data: none
  float* partials = nullptr;  // the workspace
};

// A block has a stripe of rows and all columns, eight per thread, whose sums over the rows stay in
// registers. The next row is loaded while this one is summed.
constexpr int kSweepThreads = kMostSweptColumns / kGroup;
constexpr int64_t kSweepRows = 16;  // per stripe at least
// At most one stripe per block that a GPU of 132 multiprocessors runs at once: the kernel needs
// about 100 of 65,536 registers per thread.
constexpr int64_t kProcessors = 132, kSweepThreadsAtOnce = 600, kMostBlocksAtOnce = 8;

struct RowPart {
  float dy[kGroup], x[kGroup];
  __device__ void read(const NormGradRows& a, int64_t row, int64_t c, int n) {
    const int64_t at = row * a.groups.columns + c;
    read_group(a.dy, at, n, a.groups.vector, dy);
    read_group(a.x, at, n, a.groups.vector, x);
  }
};

struct SweepSums {
  float plain[kGroup] = {}, scaled[kGroup] = {};
};

// One row: adds to the column sums, reduces the two means over the block, and writes dx.
__device__ void sweep_row(const NormGradRows& a, int64_t row, int64_t c, int n, RowPart p,
                          const float (&gain)[kGroup], SweepSums& kept) {
  const Groups& g = a.groups;
  const float mean = a.stats[2 * row], rstd = a.stats[2 * row + 1];
  float sums[2] = {0, 0};
  for (int k = 0; k < kGroup; ++k) {
    p.x[k] = k < n ? (p.x[k] - mean) * rstd : 0.0f;
    kept.plain[k] += p.dy[k];
    kept.scaled[k] += p.dy[k] * p.x[k];
    p.dy[k] *= gain[k] + a.offset;
    sums[0] += p.dy[k];
    sums[1] += p.dy[k] * p.x[k];
  }
  block_sums(sums, shared_floats());
  const float mean_g = a.centered ? sums[0] / static_cast<float>(g.columns) : 0.0f;
  const float mean_gx = sums[1] / static_cast<float>(g.columns);
  float dx[kGroup] = {};
  if (a.accumulate) read_group(a.dx, row * g.columns + c, n, g.vector, dx);
  for (int k = 0; k < kGroup; ++k) dx[k] += rstd * (p.dy[k] - mean_g - p.x[k] * mean_gx);
  write_group(a.dx, row * g.columns + c, n, g.vector, dx);
}

__global__ void __launch_bounds__(kSweepThreads) norm_grad_sweep_kernel(const NormGradSweep a) {
  const Groups& g = a.rows.groups;
  const int64_t c = static_cast<int64_t>(threadIdx.x) * kGroup, left = g.columns - c;
  const int n = left <= 0 ? 0 : left < kGroup ? static_cast<int>(left) : kGroup;
  const int64_t stripes = gridDim.x, stripe = blockIdx.x;
  const int64_t begin = g.rows * stripe / stripes, end = g.rows * (stripe + 1) / stripes;
  float gain[kGroup];
  read_group(a.rows.gain, c, n, g.vector, gain);
  SweepSums kept;
  RowPart next;
  if (begin < end) next.read(a.rows, begin, c, n);
  for (int64_t row = begin; row < end; ++row) {
    const RowPart own = next;
    if (row + 1 < end) next.read(a.rows, row + 1, c, n);
    sweep_row(a.rows, row, c, n, own, gain, kept);
  }
  for (int k = 0; k < kGroup; ++k) {
    if (k >= n) break;
    a.partials[stripe * g.columns + c + k] = kept.plain[k];
    a.partials[(stripes + stripe) * g.columns + c + k] = kept.scaled[k];
  }
}

int sweep_threads(int64_t columns) {
  return static_cast<int>(blocks_for(columns, kWarp * kGroup)) * kWarp;
}
// Enough stripes to occupy the GPU once; more would only add partial rows to join.
int64_t sweep_stripes(int64_t rows, int64_t columns) {
  const int64_t fit = kSweepThreadsAtOnce / sweep_threads(columns);
  const int64_t at_once = fit < 1 ? 1 : fit > kMostBlocksAtOnce ? kMostBlocksAtOnce : fit;
  const int64_t stripes = rows / kSweepRows, most = kProcessors * at_once;
  return stripes < 1 ? 1 : stripes > most ? most : stripes;
}

void finish_norm(Stream s, NormRows a, const Norm& n) {
  require(!n.outputs.empty(), "a norm without outputs");
  for (const NormOutput& o : n.outputs) {
    a.gain[a.outputs] = numbers(o.gain);
    a.bias[a.outputs] = numbers(o.bias);
    a.y[a.outputs++] = numbers(o.y);
    a.sum.groups.vector =
        a.sum.groups.vector && aligned(o.gain.data) && aligned(o.bias.data) && aligned(o.y.data);
  }
  a.centered = n.kind == NormKind::kLayer;
  a.epsilon = n.epsilon;
  a.offset = n.unit_offset ? 1.0f : 0.0f;
  a.stats = n.stats ? n.stats.f32() : nullptr;
  const Groups& g = a.sum.groups;
  launch("norm", norm_kernel,
         {.x = g.rows, .threads = threads_for(g.columns), .shared_bytes = kSumsBytes}, s, a);
}

void sweep_norm_grad(const NormGradSweep& a, Stream s) {
  const Groups& g = a.rows.groups;
  const int64_t stripes = sweep_stripes(g.rows, g.columns);
  launch("norm_grad_sweep", norm_grad_sweep_kernel,
         {.x = stripes, .threads = sweep_threads(g.columns), .shared_bytes = kSumsBytes}, s, a);
  launch_column_join({a.partials, stripes, g.columns, a.dbias, a.dgain}, s);
}

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const NormArgs& a) {
  NormRows rows;
  rows.sum.groups = groups_of(rows_of(a.x), columns_of(a.x), a.x);
  rows.sum.out = numbers(a.x);
  finish_norm(l.stream, rows, a.norm);
}

void launch(Gpu, const Launch& l, const SumNormArgs& a) {
  NormRows rows;
  rows.sum = sum_rows(a.sum);
  finish_norm(l.stream, rows, a.norm);
}

int64_t workspace_bytes(Gpu, const NormGradArgs& a, int) {
  const int64_t n = rows_of(a.x), d = columns_of(a.x);
  const int64_t partials =
      d <= kMostSweptColumns ? 2 * sweep_stripes(n, d) * d : column_partials(n, d);
  return partials * static_cast<int64_t>(sizeof(float));
}

void launch(Gpu, const Launch& l, const NormGradArgs& a) {
  const NormGradRows rows = {
      .groups = groups_of(rows_of(a.x), columns_of(a.x), a.x, a.gain, a.dy, a.dx),
      .centered = a.kind == NormKind::kLayer,
      .accumulate = a.accumulate_dx,
      .offset = a.unit_offset ? 1.0f : 0.0f,
      .x = numbers(a.x),
      .gain = numbers(a.gain),
      .dy = numbers(a.dy),
      .dx = numbers(a.dx),
      .stats = a.stats.f32()};
  auto* const partials = static_cast<float*>(l.workspace);
  if (rows.groups.columns <= kMostSweptColumns)
    return sweep_norm_grad({rows, numbers(a.dgain), numbers(a.dbias), partials}, l.stream);
  ColumnSums sums;
  sums.groups = rows.groups;
  sums.dy = rows.dy;
  sums.x = rows.x;
  sums.stats = rows.stats;
  sums.gain = numbers(a.dgain);
  sums.to = numbers(a.dbias);
  sums.partials = partials;
  launch_column_sums(sums, l.stream);  // first: dx may overwrite dy
  const Groups& g = rows.groups;
  launch("norm_grad", norm_grad_kernel,
         {.x = g.rows, .threads = threads_for(g.columns), .shared_bytes = kSumsBytes}, l.stream,
         rows);
}

}  // namespace tessera::kernels
