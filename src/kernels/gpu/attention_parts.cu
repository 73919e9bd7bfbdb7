// Unfused attention on the GPU: one thread per output element (kernels/attention_parts.h). This is
// the readable form that the fused kernels are compared with, and what the compiler option
// `attention: unfused` runs. It favors clarity over speed: each thread reads its operands from
// global memory, and every sum has one thread and a fixed order.
#include <cmath>

#include "kernels/attention_parts.h"
#include "kernels/gpu/attention.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/reduce.h"
#include "kernels/gpu/views.h"

namespace tessera::kernels::gpu {
namespace {

struct PartsWork {
  int64_t b = 0, t = 0, kv = 0, g = 0, d = 0;
  float scale = 1;
  int64_t window = 0;
  float soft_cap = 0;
  Numbers qkv, d_qkv;        // [B, T, KV, G+2, D]
  RowPlaces at;              // positions of their rows
  Numbers square, d_square;  // [B, H, T, T]: scores or probabilities, and their gradient
  Numbers out;               // [B, T, H, D]; or its gradient

  __host__ __device__ int64_t heads() const { return kv * g; }
};

// The coordinates of an element of [B, H, T, T].
struct Cell {
  int64_t b, head, kv, g, i, j;
};
__device__ Cell cell_of(const PartsWork& a, int64_t n) {
  const int64_t j = n % a.t, i = n / a.t % a.t, head = n / (a.t * a.t) % a.heads();
  return {n / (a.t * a.t * a.heads()), head, head / a.g, head % a.g, i, j};
}
__device__ int64_t square_at(const PartsWork& a, int64_t b, int64_t head, int64_t i, int64_t j) {
  return ((b * a.heads() + head) * a.t + i) * a.t + j;
}
__device__ int64_t out_at(const PartsWork& a, int64_t b, int64_t i, int64_t head) {
  return ((b * a.t + i) * a.heads() + head) * a.d;
}
__device__ int64_t key_at(const PartsWork& a, int64_t b, int64_t j, int64_t kv) {
  return a.at.at(b, j, kv, a.g);
}
__device__ int64_t value_at(const PartsWork& a, int64_t b, int64_t j, int64_t kv) {
  return a.at.at(b, j, kv, a.g + 1);
}

__device__ float dot(const Numbers& x, int64_t i, const Numbers& y, int64_t j, int64_t d) {
  float sum = 0;
  for (int64_t k = 0; k < d; ++k) sum += read(x, i + k) * read(y, j + k);
  return sum;
}

// cap(scale q . k) of a visible pair.
__device__ float score_of(const PartsWork& a, const Cell& c) {
  const float s =
      a.scale * dot(a.qkv, a.at.at(c.b, c.i, c.kv, c.g), a.qkv, key_at(a, c.b, c.j, c.kv), a.d);
  return a.soft_cap > 0 ? a.soft_cap * tanhf(s / a.soft_cap) : s;
}

struct Scores {
  PartsWork a;
  __host__ __device__ int64_t count() const { return a.b * a.heads() * a.t * a.t; }
  __device__ void operator()(int64_t n) const {
    const Cell c = cell_of(a, n);
    const bool hidden = c.j > c.i || (a.window > 0 && c.j <= c.i - a.window);
    write(a.square, n, hidden ? -INFINITY : score_of(a, c));
  }
};

// square = d_square times the slope of the cap.
struct CapGrads {
  PartsWork a;
  __host__ __device__ int64_t count() const { return a.b * a.heads() * a.t * a.t; }
  __device__ void operator()(int64_t n) const {
    const Cell c = cell_of(a, n);
    if (c.j > c.i) return;
    const float share = score_of(a, c) / a.soft_cap;
    write(a.square, n, read(a.d_square, n) * (1 - share * share));
  }
};

struct ProbabilityGrads {
  PartsWork a;
  __host__ __device__ int64_t count() const { return a.b * a.heads() * a.t * a.t; }
  __device__ void operator()(int64_t n) const {
    const Cell c = cell_of(a, n);
    const float dp = c.j > c.i ? 0.0f
                               : dot(a.out, out_at(a, c.b, c.i, c.head), a.qkv,
                                     value_at(a, c.b, c.j, c.kv), a.d);
    write(a.d_square, n, dp);
  }
};

// Computes an element of [B, T, H, D] as a sum over the keys that its query sees: out, or the
// gradient of q.
template <bool kGradient>
struct OverKeys {
  PartsWork a;
  __host__ __device__ int64_t count() const { return a.b * a.t * a.heads() * a.d; }
  __device__ void operator()(int64_t n) const {
    const int64_t k = n % a.d, head = n / a.d % a.heads(), i = n / (a.d * a.heads()) % a.t;
    const int64_t b = n / (a.d * a.heads() * a.t), kv = head / a.g;
    float sum = 0;
    for (int64_t j = 0; j <= i; ++j)
      sum += read(kGradient ? a.d_square : a.square, square_at(a, b, head, i, j)) *
             read(a.qkv, (kGradient ? key_at(a, b, j, kv) : value_at(a, b, j, kv)) + k);
    if (kGradient)
      write(a.d_qkv, a.at.at(b, i, kv, head % a.g) + k, a.scale * sum);
    else
      write(a.out, n, sum);
  }
};

// Computes an element of [B, T, KV, D] as a sum over the queries that see its key, of all heads of
// the group: the gradient of v, or of k.
template <bool kOfKeys>
struct OverQueries {
  PartsWork a;
  __host__ __device__ int64_t count() const { return a.b * a.t * a.kv * a.d; }
  __device__ void operator()(int64_t n) const {
    const int64_t k = n % a.d, kv = n / a.d % a.kv, j = n / (a.d * a.kv) % a.t;
    const int64_t b = n / (a.d * a.kv * a.t);
    float sum = 0;
    for (int64_t g = 0; g < a.g; ++g)
      for (int64_t i = j; i < a.t; ++i) {
        const int64_t head = kv * a.g + g, at = square_at(a, b, head, i, j);
        sum += kOfKeys ? read(a.d_square, at) * read(a.qkv, a.at.at(b, i, kv, g) + k)
                       : read(a.square, at) * read(a.out, out_at(a, b, i, head) + k);
      }
    if (kOfKeys)
      write(a.d_qkv, key_at(a, b, j, kv) + k, a.scale * sum);
    else
      write(a.d_qkv, value_at(a, b, j, kv) + k, sum);
  }
};

struct SoftmaxWork {
  int64_t rows = 0, columns = 0;
  Numbers x, y;  // in the gradient: y, dy
  Numbers to;
  Numbers sinks;  // [heads], or none; rows_of_head rows of each head follow each other
  float* lse = nullptr;
  int64_t rows_of_head = 1, heads = 1;
};

constexpr int kRowsOfBlock = 8;  // one warp per row

__device__ int64_t row_of_warp() {
  return static_cast<int64_t>(blockIdx.x) * kRowsOfBlock + warp_index();
}

// Three passes over the row: maximum, sum, quotient. Subtracting the maximum keeps e^x in range.
__global__ void softmax_kernel(const SoftmaxWork a) {
  const int64_t row = row_of_warp(), from = row * a.columns;
  if (row >= a.rows) return;  // the whole warp
  float most = -INFINITY, sum = 0;
  for (int64_t k = lane_index(); k < a.columns; k += kWarp) most = fmaxf(most, read(a.x, from + k));
  most = warp_max(most);
  const bool sinks = a.sinks.data != nullptr;
  const float sink = sinks ? read(a.sinks, row / a.rows_of_head % a.heads) : -INFINITY;
  if (sinks) most = fmaxf(most, sink);
  for (int64_t k = lane_index(); k < a.columns; k += kWarp) sum += expf(read(a.x, from + k) - most);
  sum = warp_sum(sum);
  if (sinks) {
    sum += expf(sink - most);
    if (lane_index() == 0) a.lse[row] = most + logf(sum);
  }
  for (int64_t k = lane_index(); k < a.columns; k += kWarp)
    write(a.to, from + k, expf(read(a.x, from + k) - most) / sum);
}

// dx = y (dy - sum(dy y)); x holds y, and y holds dy.
__global__ void softmax_grad_kernel(const SoftmaxWork a) {
  const int64_t row = row_of_warp(), from = row * a.columns;
  if (row >= a.rows) return;
  float sum = 0;
  for (int64_t k = lane_index(); k < a.columns; k += kWarp)
    sum += read(a.x, from + k) * read(a.y, from + k);
  sum = warp_sum(sum);
  for (int64_t k = lane_index(); k < a.columns; k += kWarp)
    write(a.to, from + k, read(a.x, from + k) * (read(a.y, from + k) - sum));
}

Grid rows_grid(const SoftmaxWork& a) {
  return {.x = blocks_for(a.rows, kRowsOfBlock), .threads = kRowsOfBlock * kWarp};
}

PartsWork work_of(View qkv) {
  const Shape& q = qkv.shape;
  PartsWork w;
  w.b = q[0];
  w.t = q[1];
  w.kv = q[2];
  w.g = q[3] - 2;
  w.d = q[4];
  w.qkv = numbers(qkv);
  w.at = row_places(qkv);
  return w;
}

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const AttentionScoresArgs& a) {
  PartsWork w = work_of(a.qkv);
  w.scale = a.scale;
  w.window = a.window;
  w.soft_cap = a.soft_cap;
  w.square = numbers(a.scores);
  launch_map("attention_scores", l.stream, Scores{w});
}

int64_t workspace_bytes(Gpu, const AttentionScoresGradArgs& a, int) {
  return a.soft_cap > 0 ? bytes_for<float>(a.d_scores.elements()) : 0;
}

void launch(Gpu, const Launch& l, const AttentionScoresGradArgs& a) {
  PartsWork w = work_of(a.qkv);
  w.scale = a.scale;
  w.soft_cap = a.soft_cap;
  w.d_square = numbers(a.d_scores);
  w.d_qkv = numbers(a.d_qkv);
  if (a.soft_cap > 0) {
    w.square = {l.workspace, DType::kF32};
    launch_map("attention_scores_grad_cap", l.stream, CapGrads{w});
    w.d_square = w.square;
  }
  launch_map("attention_scores_grad_queries", l.stream, OverKeys<true>{w});
  launch_map("attention_scores_grad_keys", l.stream, OverQueries<true>{w});
}

void launch(Gpu, const Launch& l, const AttentionMixArgs& a) {
  PartsWork w = work_of(a.qkv);
  w.square = numbers(a.probabilities);
  w.out = numbers(a.out);
  launch_map("attention_mix", l.stream, OverKeys<false>{w});
}

void launch(Gpu, const Launch& l, const AttentionMixGradArgs& a) {
  PartsWork w = work_of(a.qkv);
  w.square = numbers(a.probabilities);
  w.d_square = numbers(a.d_probabilities);
  w.out = numbers(a.d_out);
  w.d_qkv = numbers(a.d_qkv);
  launch_map("attention_mix_grad", l.stream, ProbabilityGrads{w});
  launch_map("attention_mix_grad_values", l.stream, OverQueries<false>{w});
}

void launch(Gpu, const Launch& l, const SoftmaxArgs& a) {
  SoftmaxWork w = {rows_of(a.x), columns_of(a.x), numbers(a.x), {}, numbers(a.y), {}};
  if (a.sinks) {
    w.sinks = numbers(a.sinks);
    w.lse = a.lse.f32();
    w.rows_of_head = a.x.shape[2];
    w.heads = a.x.shape[1];
  }
  launch("softmax", softmax_kernel, rows_grid(w), l.stream, w);
}

void launch(Gpu, const Launch& l, const SoftmaxGradArgs& a) {
  const SoftmaxWork w = {rows_of(a.y),  columns_of(a.y), numbers(a.y),
                         numbers(a.dy), numbers(a.dx),   {}};
  launch("softmax_grad", softmax_grad_kernel, rows_grid(w), l.stream, w);
}

}  // namespace tessera::kernels
