// The table of tiles, and GEMMs on the rows of tiles in f32: 64 x 64 elements of the result per
// block, 4 x 4 per thread, with operands in shared memory.
#include "kernels/gpu/experts.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/reduce.h"

namespace tessera::kernels::gpu {
namespace {

constexpr int kThreads = 256, kWords = kThreads / kWarp;
constexpr int kSide = 64;   // rows and columns of the result per block
constexpr int kDepth = 16;  // summands per step
constexpr int kEach = 4;    // rows and columns of the result per thread
static_assert(kSide == kTileRows && kSide * kSide == kThreads * kEach * kEach);

__device__ bool is_of(const Tiles& t, int64_t pair, int64_t expert) {
  return pair < t.pairs && t.choice[pair] - t.first == expert;
}

// One block per expert counts its pairs; one more block marks the pairs of other ranks' experts.
__global__ void count_rows_kernel(const Tiles t) {
  const int64_t expert = blockIdx.x;
  auto* const words = reinterpret_cast<int64_t*>(shared_floats());
  if (expert == t.experts) {
    for (int64_t i = threadIdx.x; i < t.pairs; i += kThreads) {
      const int64_t e = t.choice[i] - t.first;
      if (e < 0 || e >= t.experts) t.row_of[i] = -1;
    }
    return;
  }
  int64_t count[1] = {0};
  for (int64_t i = threadIdx.x; i < t.pairs; i += kThreads) count[0] += is_of(t, i, expert) ? 1 : 0;
  block_sums(count, words);
  if (threadIdx.x == 0) t.counts[expert] = static_cast<int32_t>(count[0]);
}

// Computes the first tile of each expert. Runs in one block.
__global__ void begin_tiles_kernel(const Tiles t) {
  if (threadIdx.x == 0) {
    int32_t begin = 0;
    for (int64_t e = 0; e < t.experts; ++e) {
      t.begin[e] = begin;
      begin += (t.counts[e] + kTileRows - 1) / kTileRows;
    }
    t.begin[t.experts] = begin;
  }
  for (int64_t i = threadIdx.x; i < t.bound; i += kThreads) t.of_tile[i] = -1;
  for (int64_t i = threadIdx.x; i < t.bound * kTileRows; i += kThreads) t.rows[i] = -1;
}

// One block per expert assigns rows to the expert's pairs in order, 256 pairs at a time.
__global__ void fill_tiles_kernel(const Tiles t) {
  auto* const words = reinterpret_cast<uint32_t*>(shared_floats());
  const int64_t expert = blockIdx.x;
  const int32_t first = t.begin[expert];
  for (int32_t i = first + static_cast<int32_t>(threadIdx.x); i < t.begin[expert + 1];
       i += kThreads)
    t.of_tile[i] = static_cast<int32_t>(expert);
  int64_t row = static_cast<int64_t>(first) * kTileRows;
  for (int64_t at = 0; at < t.pairs; at += kThreads) {
    const int64_t pair = at + threadIdx.x;
    const bool own = is_of(t, pair, expert);
    const uint32_t bits = ballot(own);
    if (lane_index() == 0) words[warp_index()] = bits;
    __syncthreads();
    int64_t before = 0, all = 0;
    for (int w = 0; w < kWords; ++w) {
      const int n = __popc(words[w]);
      if (w < warp_index()) before += n;
      all += n;
    }
    before += __popc(bits & ((1u << lane_index()) - 1));
    if (own) {
      t.rows[row + before] = static_cast<int32_t>(pair);
      t.row_of[pair] = static_cast<int32_t>(row + before);
    }
    row += all;
    __syncthreads();
  }
}

// Returns the offset of a row in an operand: by its token if the operand is gathered, else in the
// buffer of rows. Returns -1 for an unused row.
__device__ int64_t row_offset(const Wave& w, int64_t row, int64_t columns, bool gathers) {
  const int32_t pair = w.tiles.rows[w.first_tile * kTileRows + row];
  if (pair < 0) return -1;
  return (gathers ? pair / w.tiles.chosen : row) * columns;
}

// One step's operands in shared memory: [kDepth][kSide] each.
struct Step {
  float *a, *b;
};
__device__ Step step_memory() { return {shared_floats(), shared_floats() + kDepth * kSide}; }
constexpr size_t kStepBytes = 2 * kDepth * kSide * sizeof(float);

struct Part {
  float sum[kEach][kEach] = {};
  __device__ int row() const { return static_cast<int>(threadIdx.x) / (kSide / kEach) * kEach; }
  __device__ int column() const { return static_cast<int>(threadIdx.x) % (kSide / kEach) * kEach; }
  __device__ void add(const Step& s) {
    for (int d = 0; d < kDepth; ++d)
#pragma unroll
      for (int i = 0; i < kEach; ++i)
#pragma unroll
        for (int j = 0; j < kEach; ++j)
          sum[i][j] += s.a[d * kSide + row() + i] * s.b[d * kSide + column() + j];
  }
};

__global__ void row_product_kernel(const RowProduct p) {
  const int64_t tile = blockIdx.x, first_column = static_cast<int64_t>(blockIdx.y) * kSide;
  const int64_t index = p.wave.first_tile + tile;
  if (index >= p.wave.tiles.bound || p.wave.tiles.of_tile[index] < 0) return;  // the whole block
  const int64_t matrix = p.wave.tiles.of_tile[index] * p.n * p.k;
  const Step step = step_memory();
  Part part;
  for (int64_t at = 0; at < p.k; at += kDepth) {
    for (int i = static_cast<int>(threadIdx.x); i < kDepth * kSide; i += kThreads) {
      const int64_t r = i / kDepth, d = at + i % kDepth;
      const int64_t offset = row_offset(p.wave, tile * kTileRows + r, p.k, p.gathers);
      step.a[i % kDepth * kSide + r] = offset < 0 || d >= p.k ? 0.0f : read(p.a, offset + d);
      const int64_t c = first_column + (p.transposed ? i / kDepth : i % kSide);
      const int64_t e = at + (p.transposed ? i % kDepth : i / kSide);
      const bool there = c < p.n && e < p.k;
      const float b = there ? read(p.b, matrix + (p.transposed ? c * p.k + e : e * p.n + c)) : 0.0f;
      step.b[(e - at) * kSide + (c - first_column)] = b;
    }
    __syncthreads();
    part.add(step);
    __syncthreads();
  }
  for (int i = 0; i < kEach; ++i)
    for (int j = 0; j < kEach; ++j)
      if (const int64_t c = first_column + part.column() + j; c < p.n)
        write(p.c, (tile * kTileRows + part.row() + i) * p.n + c, part.sum[i][j]);
}

__global__ void expert_product_kernel(const ExpertProduct p) {
  const int64_t expert = blockIdx.z, first_row = static_cast<int64_t>(blockIdx.x) * kSide,
                first_column = static_cast<int64_t>(blockIdx.y) * kSide;
  const Wave& w = p.wave;
  const int64_t last = w.first_tile + w.count;
  int64_t tile = w.tiles.begin[expert], end = w.tiles.begin[expert + 1];
  tile = tile > w.first_tile ? tile : w.first_tile;
  end = end < last ? end : last;
  if (tile >= end) return;  // the whole block
  const Step step = step_memory();
  Part part;
  const int64_t from = (tile - w.first_tile) * kTileRows, to = (end - w.first_tile) * kTileRows;
  for (int64_t at = from; at < to; at += kDepth) {
    for (int i = static_cast<int>(threadIdx.x); i < kDepth * kSide; i += kThreads) {
      const int64_t row = at + i / kSide, m = first_row + i % kSide, n = first_column + i % kSide;
      const int64_t a = row_offset(w, row, p.m, p.gathers_a);
      const int64_t b = row_offset(w, row, p.n, p.gathers_b);
      step.a[i] = a < 0 || m >= p.m ? 0.0f : read(p.a, a + m);
      step.b[i] = b < 0 || n >= p.n ? 0.0f : read(p.b, b + n);
    }
    __syncthreads();
    part.add(step);
    __syncthreads();
  }
  for (int i = 0; i < kEach; ++i)
    for (int j = 0; j < kEach; ++j) {
      const int64_t m = first_row + part.row() + i, n = first_column + part.column() + j;
      if (m >= p.m || n >= p.n) continue;
      const int64_t c = (expert * p.m + m) * p.n + n;
      write(p.c, c, read(p.c, c) + part.sum[i][j]);
    }
}

}  // namespace

int64_t most_tiles(int64_t pairs, int64_t experts) {
  return pairs < experts ? pairs : experts + (pairs - experts) / kTileRows;
}

void launch_tiles(const Tiles& t, Stream s) {
  launch("experts_count", count_rows_kernel,
         {.x = t.experts + 1, .threads = kThreads, .shared_bytes = kWarp * sizeof(int64_t)}, s, t);
  launch("experts_begin", begin_tiles_kernel, {.x = 1, .threads = kThreads}, s, t);
  launch("experts_fill", fill_tiles_kernel,
         {.x = t.experts, .threads = kThreads, .shared_bytes = kWords * sizeof(uint32_t)}, s, t);
}

void launch_row_product(const RowProduct& p, Stream s) {
  launch("experts_rows", row_product_kernel,
         {.x = p.wave.count,
          .y = blocks_for(p.n, kSide),
          .threads = kThreads,
          .shared_bytes = kStepBytes},
         s, p);
}

void launch_expert_product(const ExpertProduct& p, Stream s) {
  launch("experts_weights", expert_product_kernel,
         {.x = blocks_for(p.m, kSide),
          .y = blocks_for(p.n, kSide),
          .z = p.wave.tiles.experts,
          .threads = kThreads,
          .shared_bytes = kStepBytes},
         s, p);
}

}  // namespace tessera::kernels::gpu
