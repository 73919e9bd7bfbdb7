// Column sums in two stages without atomics (column_sums.h). A block has a stripe of rows and 256
// columns, eight per lane; its warps process rows in turn, and their sums are added in the order of
// warps. join_kernel then adds the stripes in order.
//
//   shared, f32:  [ warp 0: plain 256 | scaled 256 ] … [ warp 7: plain 256 | scaled 256 ]   16 KiB
//   partials:     [ plain: stripes x columns | scaled: stripes x columns ]
//
// An activation can be fused: dy is then multiplied by its slope and the result is written to dx,
// so the backward of GELU with a bias reads its operands once.
#include "kernels/gpu/column_sums.h"

#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/reduce.h"

namespace tessera::kernels::gpu {
namespace {

constexpr int kWarps = 8;
constexpr int64_t kTile = kWarp * kGroup;  // columns per block
constexpr int64_t kStripeRows = 64, kMostStripes = 128;

struct Sums {
  float plain[kGroup] = {}, scaled[kGroup] = {};
};

__device__ void multiply_by_slope(const ColumnSums& a, int64_t row, int64_t c, int n,
                                  float (&dy)[kGroup]) {
  float u[kGroup], bias[kGroup] = {};
  read_group(a.of, row * a.groups.columns + c, n, a.groups.vector, u);
  if (a.bias.data != nullptr) read_group(a.bias, c, n, a.groups.vector, bias);
  for (int k = 0; k < kGroup; ++k) dy[k] *= activate(a.kind, u[k] + bias[k]).slope;
}

__device__ Sums sum_rows(const ColumnSums& a, int64_t c, int n, int64_t begin, int64_t end) {
  Sums s;
  for (int64_t row = begin + warp_index(); row < end; row += kWarps) {
    float dy[kGroup], x[kGroup];
    read_group(a.dy, row * a.groups.columns + c, n, a.groups.vector, dy);
    if (a.of.data != nullptr) multiply_by_slope(a, row, c, n, dy);
    if (a.dx.data != nullptr) write_group(a.dx, row * a.groups.columns + c, n, a.groups.vector, dy);
    for (int k = 0; k < kGroup; ++k) s.plain[k] += dy[k];
    if (a.gain.data == nullptr) continue;
    const float mean = a.stats[2 * row], rstd = a.stats[2 * row + 1];
    read_group(a.x, row * a.groups.columns + c, n, a.groups.vector, x);
    for (int k = 0; k < kGroup; ++k) s.scaled[k] += dy[k] * ((x[k] - mean) * rstd);
  }
  return s;
}

// Shared memory: [warps][2][tile].
__global__ void stripe_kernel(const ColumnSums a) {
  const int64_t columns = a.groups.columns, first = block_x() * kTile;
  const int64_t c = first + lane_index() * kGroup, left = columns - c;
  const int n = group_size(left);
  const int64_t stripes = gridDim.y, stripe = blockIdx.y;
  const int64_t begin = a.groups.rows * stripe / stripes;
  const int64_t end = a.groups.rows * (stripe + 1) / stripes;
  float* const shared = shared_floats();
  Sums own;
  if (n > 0) own = sum_rows(a, c, n, begin, end);
  float* const mine = shared + warp_index() * 2 * kTile + lane_index() * kGroup;
  for (int k = 0; k < kGroup; ++k) {
    mine[k] = own.plain[k];
    mine[kTile + k] = own.scaled[k];
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < 2 * kTile; i += blockDim.x) {
    const int64_t column = first + i % kTile;
    if (column >= columns) continue;
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += shared[w * 2 * kTile + i];
    a.partials[((i / kTile) * stripes + stripe) * columns + column] = sum;
  }
}

// A block has 32 columns, one per lane. A warp sums every eighth stripe.
__global__ void join_kernel(const ColumnJoin a) {
  const int64_t column = block_x() * kWarp + lane_index();
  float* const shared = shared_floats();
  for (int which = 0; which < 2; ++which) {
    const Numbers& to = which == 0 ? a.to : a.gain;
    if (to.data == nullptr) continue;  // the same for all threads
    float sum = 0;
    if (column < a.columns)
      for (int64_t s = warp_index(); s < a.stripes; s += kWarps)
        sum += a.partials[(which * a.stripes + s) * a.columns + column];
    shared[warp_index() * kWarp + lane_index()] = sum;
    __syncthreads();
    if (warp_index() == 0 && column < a.columns) {
      for (int w = 1; w < kWarps; ++w) sum += shared[w * kWarp + lane_index()];
      write(to, column, read(to, column) + sum);
    }
    __syncthreads();
  }
}

int64_t column_stripes(int64_t rows) {
  const int64_t stripes = blocks_for(rows, kStripeRows);
  return stripes < 1 ? 1 : stripes > kMostStripes ? kMostStripes : stripes;
}

}  // namespace

int64_t column_partials(int64_t rows, int64_t columns) {
  return 2 * column_stripes(rows) * columns;
}

void launch_column_sums(const ColumnSums& a, Stream s) {
  const int64_t stripes = column_stripes(a.groups.rows);
  launch("column_sums", stripe_kernel,
         {.x = blocks_for(a.groups.columns, kTile),
          .y = stripes,
          .threads = kWarps * kWarp,
          .shared_bytes = kWarps * 2 * kTile * sizeof(float)},
         s, a);
  launch_column_join({a.partials, stripes, a.groups.columns, a.to, a.gain}, s);
}

void launch_column_join(const ColumnJoin& a, Stream s) {
  launch("column_sums_join", join_kernel,
         {.x = blocks_for(a.columns, kWarp),
          .threads = kWarps * kWarp,
          .shared_bytes = kWarps * kWarp * sizeof(float)},
         s, a);
}

}  // namespace tessera::kernels::gpu
