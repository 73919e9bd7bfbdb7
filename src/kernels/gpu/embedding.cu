// Embedding lookup and the gradient of the table (kernels/embedding.h). The gradient is a
// scatter-add in which several tokens may hit the same row. With atomics, the order of a sum would
// depend on timing, so each row has one writer:
//
//   token   0   1   2   3   4   5          block 0 sums tokens 0, 3 and 5 into row 7
//   id      7   2   9   7   2   7          block 1 sums tokens 1 and 4 into row 2
//           ^   ^   ^                      block 2 sums token 2 into row 9
//           first occurrences              blocks 3, 4 and 5 return
//
// To find the occurrences, the blocks together read up to N^2 ids, 256 at a time.
#include <cmath>

#include "kernels/embedding.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/reduce.h"
#include "kernels/gpu/views.h"

namespace tessera::kernels::gpu {
namespace {

// An id outside [0, total) gives a row of NaN and no gradient: a kernel cannot throw, so the error
// appears in the loss.
struct TableWork {
  const int32_t* ids = nullptr;
  int64_t tokens = 0, columns = 0, rows = 0;  // extents of ids and of the table
  int64_t first = 0, total = 0;
  bool vector = false;
  Numbers table, y;     // only the forward
  Numbers dy, d_table;  // only the gradient
};

struct LookUp {
  TableWork a;
  Groups groups;
  __host__ __device__ int64_t count() const { return groups.count(); }
  __device__ void operator()(int64_t i) const {
    const Groups::Cursor p = groups.cursor(i);
    const int64_t id = a.ids[p.row], row = id - a.first;
    float x[kGroup];
    // A row in another rank's shard is zero here, so the sum over ranks is the row.
    const float absent = id < 0 || id >= a.total ? NAN : 0.0f;
    for (float& v : x) v = absent;
    if (row >= 0 && row < a.rows) read_group(a.table, row * a.columns + p.column, p.n, a.vector, x);
    write_group(a.y, p.at, p.n, a.vector, x);
  }
};

// There is one block per token and tile of columns. The block of the first token with an id adds
// the rows of all tokens with that id, in order; the blocks of the others return at once.
constexpr int kThreads = 256;
constexpr int64_t kTile = kThreads * kGroup;
constexpr int kWords = kThreads / kWarp;
constexpr int kAtOnce = 4;  // rows that are loaded at a time

// Stores one bit per thread of the block. All threads must call it. `words` has one entry per warp.
__device__ void gather_bits(bool x, uint32_t* words) {
  const uint32_t bits = ballot(x);
  if (lane_index() == 0) words[warp_index()] = bits;
  __syncthreads();
}

// Returns true if x is true in any thread. All threads have read `words` when it returns.
__device__ bool any_thread(bool x, uint32_t* words) {
  gather_bits(x, words);
  uint32_t all = 0;
  for (int w = 0; w < kWords; ++w) all |= words[w];
  __syncthreads();
  return all != 0;
}

// Writes the indices of the threads with x, in order, and returns their number. The position of a
// thread is the number of set bits in earlier warps and in lower lanes of its warp.
__device__ int gather_numbers(bool x, uint32_t* words, uint32_t* numbers) {
  gather_bits(x, words);
  int count = 0, before = 0;
  for (int w = 0; w < kWords; ++w) {
    if (w == warp_index()) before = count + __popc(words[w] & ((1u << lane_index()) - 1));
    count += __popc(words[w]);
  }
  if (x) numbers[before] = threadIdx.x;
  __syncthreads();
  return count;
}

__global__ void embedding_grad_kernel(const TableWork a) {
  auto* const words = reinterpret_cast<uint32_t*>(shared_floats());
  uint32_t* const found = words + kWords;
  const int64_t own = blockIdx.x;
  const int32_t id = a.ids[own];
  const int64_t row = id - a.first;
  if (row < 0 || row >= a.rows || id < 0 || id >= a.total) return;  // the whole block
  bool before = false;
  for (int64_t j = threadIdx.x; j < own && !before; j += kThreads) before = a.ids[j] == id;
  if (any_thread(before, words)) return;
  const int64_t c = block_y() * kTile + threadIdx.x * kGroup;
  const int64_t left = a.columns - c;
  const int n = group_size(left);
  float sum[kGroup] = {}, dy[kAtOnce][kGroup];
  if (n > 0) read_group(a.d_table, row * a.columns + c, n, a.vector, sum);
  // For 256 ids at a time, lists the matches in order; then all threads add the rows of these, each
  // its own columns. kAtOnce rows are loaded at a time; the additions keep their order.
  for (int64_t first = own; first < a.tokens; first += kThreads) {
    const int64_t j = first + threadIdx.x;
    const int count = gather_numbers(j < a.tokens && a.ids[j] == id, words, found);
    for (int i = 0; i < count && n > 0; i += kAtOnce) {
#pragma unroll
      for (int r = 0; r < kAtOnce; ++r) {
        const bool there = i + r < count;
        const int64_t token = first + found[there ? i + r : i];
        read_group(a.dy, token * a.columns + c, there ? n : 0, a.vector, dy[r]);
      }
#pragma unroll
      for (int r = 0; r < kAtOnce; ++r)
        for (int k = 0; k < kGroup; ++k) sum[k] += dy[r][k];
    }
    __syncthreads();
  }
  if (n > 0) write_group(a.d_table, row * a.columns + c, n, a.vector, sum);
}

TableWork table_work(View ids, int64_t columns, View table, const TableRows& rows) {
  TableWork a;
  a.ids = ids.as<int32_t>();
  a.tokens = ids.elements();
  a.columns = columns;
  a.rows = table.shape[0];
  a.first = rows.first;
  a.total = rows.total > 0 ? rows.total : a.rows;
  return a;
}

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const EmbeddingArgs& a) {
  TableWork w = table_work(a.ids, a.table.shape[1], a.table, a.rows);
  w.vector = w.columns % kGroup == 0 && aligned(a.table.data) && aligned(a.y.data);
  w.table = numbers(a.table);
  w.y = numbers(a.y);
  launch_map("embedding", l.stream, LookUp{w, {w.tokens, w.columns, w.vector}});
}

void launch(Gpu, const Launch& l, const EmbeddingGradArgs& a) {
  TableWork w = table_work(a.ids, columns_of(a.dy), a.d_table, a.rows);
  w.vector = w.columns % kGroup == 0 && aligned(a.dy.data) && aligned(a.d_table.data);
  w.dy = numbers(a.dy);
  w.d_table = numbers(a.d_table);
  launch("embedding_grad", embedding_grad_kernel,
         {.x = w.tokens,
          .y = blocks_for(w.columns, kTile),
          .threads = kThreads,
          .shared_bytes = (kWords + kThreads) * sizeof(uint32_t)},
         l.stream, w);
}

}  // namespace tessera::kernels
