// RMS norm of queries and keys on the GPU (kernels/head_norm.h). A warp has one head of one token;
// lane l has its dimensions l, l + 32, … . In the gradient a block has one head of a stripe of
// tokens, which its warps process in turn, so the sums for its gains stay in registers:
//
//   partials, f32:  [ stripes | KV (G+2) heads | D ]     joined by one thread per gain, in order
//   dots, f32:      [ tokens | KV (G+2) heads ]          with squares: joined per token, in order
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/reduce.h"
#include "kernels/gpu/views.h"
#include "kernels/head_norm.h"

namespace tessera::kernels::gpu {
namespace {

constexpr int kRowWarps = 8, kRowThreads = kRowWarps * kWarp;
constexpr int kMostPerLane = 8;  // D is at most 256
constexpr int64_t kStripeTokens = 64, kMostStripes = 64;

struct HeadWork {
  Numbers qkv, query_gain, key_gain;
  const float* squares = nullptr;
  float query_share = 1, key_share = 1, epsilon = 0, offset = 0;
  int64_t tokens = 0, kv = 0, slots = 0;
  int d = 0;
  Numbers y;
  // For the gradient.
  Numbers dy, dx, d_query_gain, d_key_gain;
  float* d_squares = nullptr;
  float *partials = nullptr, *dots = nullptr;
  int64_t stripes = 0;

  __host__ __device__ int64_t heads() const { return kv * slots; }
  __device__ bool is_key(int64_t head) const { return head % slots + 2 == slots; }
  __device__ bool is_value(int64_t head) const { return head % slots + 1 == slots; }
  __device__ float share(int64_t head) const { return is_key(head) ? key_share : query_share; }
  // Where the gains of a head begin.
  __device__ int64_t gain_at(int64_t head) const {
    if (squares == nullptr) return 0;
    const int64_t group = head / slots;
    return (is_key(head) ? group : group * (slots - 2) + head % slots) * d;
  }
  __device__ float gain(int64_t head, int k) const {
    return read(is_key(head) ? key_gain : query_gain, gain_at(head) + k) + offset;
  }
  // Returns r of one head of one token. All lanes of the warp must call it.
  __device__ float root(int64_t token, int64_t head) const {
    float sum = 0;
    if (squares != nullptr) {
      sum = squares[2 * token + (is_key(head) ? 1 : 0)];
    } else {
      const int64_t at = (token * heads() + head) * d;
      for (int k = lane_index(); k < d; k += kWarp) sum += read(qkv, at + k) * read(qkv, at + k);
      sum = warp_sum(sum);
    }
    return 1.0f / sqrtf(sum * share(head) + epsilon);
  }
};

__global__ void head_norm_kernel(const HeadWork a) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRowWarps + warp_index();
  if (row >= a.tokens * a.heads()) return;  // the whole warp
  const int64_t head = row % a.heads(), at = row * a.d;
  const bool value = a.is_value(head);
  const float r = value ? 1.0f : a.root(row / a.heads(), head);
  for (int k = lane_index(); k < a.d; k += kWarp)
    write(a.y, at + k, read(a.qkv, at + k) * (value ? 1.0f : r * a.gain(head, k)));
}

// One head of one token: writes dx and adds to the sums of the gain's gradient.
__device__ void head_grad(const HeadWork& a, int64_t token, int64_t head,
                          float (&sums)[kMostPerLane]) {
  const int64_t row = token * a.heads() + head, at = row * a.d;
  const float r = a.root(token, head);
  float dot = 0;
#pragma unroll
  for (int e = 0; e < kMostPerLane; ++e) {
    const int k = lane_index() + kWarp * e;
    if (k >= a.d) continue;
    const float dy = read(a.dy, at + k), xr = read(a.qkv, at + k) * r;
    dot += dy * a.gain(head, k) * xr;
    sums[e] += dy * xr;
  }
  const float mean = warp_sum(dot) * a.share(head), less = a.squares == nullptr ? mean : 0.0f;
  for (int k = lane_index(); k < a.d; k += kWarp)
    write(a.dx, at + k,
          r * (read(a.dy, at + k) * a.gain(head, k) - read(a.qkv, at + k) * r * less));
  if (a.dots != nullptr && lane_index() == 0) a.dots[row] = mean * r * r;
}

__global__ void head_norm_grad_kernel(const HeadWork a) {
  const int64_t head = blockIdx.x, stripe = blockIdx.y;
  const int64_t begin = a.tokens * stripe / a.stripes, end = a.tokens * (stripe + 1) / a.stripes;
  const bool value = a.is_value(head);
  float sums[kMostPerLane] = {};
  for (int64_t token = begin + warp_index(); token < end; token += kRowWarps) {
    if (!value) {
      head_grad(a, token, head, sums);
      continue;
    }
    const int64_t at = (token * a.heads() + head) * a.d;
    for (int k = lane_index(); k < a.d; k += kWarp) write(a.dx, at + k, read(a.dy, at + k));
  }
  float* const shared = shared_floats();  // [warps, kMostPerLane, lanes]
  for (int e = 0; e < kMostPerLane; ++e)
    shared[(warp_index() * kMostPerLane + e) * kWarp + lane_index()] = sums[e];
  __syncthreads();
  for (int k = static_cast<int>(threadIdx.x); k < a.d; k += kRowThreads) {
    float sum = 0;
    for (int w = 0; w < kRowWarps; ++w) sum += shared[w * kMostPerLane * kWarp + k];
    a.partials[(stripe * a.heads() + head) * a.d + k] = sum;
  }
}

// dgain[i] += the partial sums of all heads that have the gain, by one thread in order.
template <bool kKeys>
struct JoinGains {
  HeadWork a;
  int64_t gains;
  __host__ __device__ int64_t count() const { return gains; }
  __device__ void operator()(int64_t i) const {
    float sum = 0;
    for (int64_t head = 0; head < a.heads(); ++head) {
      if (a.is_value(head) || a.is_key(head) != kKeys) continue;
      const int64_t k = i - a.gain_at(head);
      if (k < 0 || k >= a.d) continue;
      for (int64_t s = 0; s < a.stripes; ++s) sum += a.partials[(s * a.heads() + head) * a.d + k];
    }
    const Numbers& to = kKeys ? a.d_key_gain : a.d_query_gain;
    write(to, i, read(to, i) + sum);
  }
};

struct JoinDots {
  HeadWork a;
  __host__ __device__ int64_t count() const { return a.tokens; }
  __device__ void operator()(int64_t token) const {
    float sums[2] = {0, 0};
    for (int64_t head = 0; head < a.heads(); ++head)
      if (!a.is_value(head)) sums[a.is_key(head) ? 1 : 0] += a.dots[token * a.heads() + head];
    a.d_squares[2 * token] = -0.5f * sums[0];
    a.d_squares[2 * token + 1] = -0.5f * sums[1];
  }
};

__global__ void head_squares_kernel(const HeadWork a) {
  const int64_t token = blockIdx.x, width = a.heads() * a.d;
  float sums[2] = {0, 0};
  for (int64_t i = threadIdx.x; i < width; i += kRowThreads) {
    const int64_t head = i / a.d;
    const float x = read(a.qkv, token * width + i);
    if (!a.is_value(head)) sums[a.is_key(head) ? 1 : 0] += x * x;
  }
  block_sums(sums, shared_floats());
  if (threadIdx.x != 0) return;
  a.d_squares[2 * token] = sums[0];
  a.d_squares[2 * token + 1] = sums[1];
}

struct AddSquaresGrad {
  HeadWork a;
  __host__ __device__ int64_t count() const { return a.tokens * a.heads() * a.d; }
  __device__ void operator()(int64_t i) const {
    const int64_t head = i / a.d % a.heads(), token = i / (a.heads() * a.d);
    if (a.is_value(head)) return;
    const float by = 2 * a.squares[2 * token + (a.is_key(head) ? 1 : 0)];
    write(a.dx, i, read(a.dx, i) + read(a.qkv, i) * by);
  }
};

HeadWork heads_of(View qkv) {
  require(qkv.shape.rank() == 5 && qkv.shape[3] > 2 && qkv.shape[4] <= kMostPerLane * kWarp,
          "the norm of heads needs [B, T, KV, G+2, D] with D of at most 256");
  HeadWork w;
  w.qkv = numbers(qkv);
  w.tokens = qkv.shape[0] * qkv.shape[1];
  w.kv = qkv.shape[2];
  w.slots = qkv.shape[3];
  w.d = static_cast<int>(qkv.shape[4]);
  return w;
}

HeadWork work_of(const HeadNorm& n) {
  HeadWork w = heads_of(n.qkv);
  const bool whole = n.squares.data != nullptr;
  w.query_gain = numbers(n.query_gain);
  w.key_gain = numbers(n.key_gain);
  w.squares = whole ? n.squares.f32() : nullptr;
  w.query_share = 1.0f / static_cast<float>(whole ? n.query_count : w.d);
  w.key_share = 1.0f / static_cast<float>(whole ? n.key_count : w.d);
  w.epsilon = n.epsilon;
  w.offset = n.unit_offset ? 1.0f : 0.0f;
  return w;
}

int64_t stripes_of(int64_t tokens) {
  const int64_t stripes = blocks_for(tokens, kStripeTokens);
  return stripes < 1 ? 1 : stripes > kMostStripes ? kMostStripes : stripes;
}

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const HeadNormArgs& a) {
  HeadWork w = work_of(a.norm);
  w.y = numbers(a.y);
  launch("head_norm", head_norm_kernel,
         {.x = blocks_for(w.tokens * w.heads(), kRowWarps), .threads = kRowThreads}, l.stream, w);
}

int64_t workspace_bytes(Gpu, const HeadNormGradArgs& a, int) {
  const Shape& s = a.norm.qkv.shape;
  const int64_t tokens = s[0] * s[1], heads = s[2] * s[3];
  const int64_t dots = a.norm.squares.shape.rank() > 0 ? tokens * heads : 0;
  return bytes_for<float>(stripes_of(tokens) * heads * s[4] + dots);
}

void launch(Gpu, const Launch& l, const HeadNormGradArgs& a) {
  HeadWork w = work_of(a.norm);
  w.dy = numbers(a.dy);
  w.dx = numbers(a.dx);
  w.d_query_gain = numbers(a.d_query_gain);
  w.d_key_gain = numbers(a.d_key_gain);
  w.stripes = stripes_of(w.tokens);
  w.partials = l.room<float>();
  if (a.d_squares) {
    w.d_squares = a.d_squares.f32();
    w.dots = w.partials + w.stripes * w.heads() * w.d;
  }
  launch("head_norm_grad", head_norm_grad_kernel,
         {.x = w.heads(),
          .y = w.stripes,
          .threads = kRowThreads,
          .shared_bytes = kRowThreads * kMostPerLane * sizeof(float)},
         l.stream, w);
  launch_map("head_norm_query_gain", l.stream, JoinGains<false>{w, a.norm.query_gain.elements()});
  launch_map("head_norm_key_gain", l.stream, JoinGains<true>{w, a.norm.key_gain.elements()});
  if (w.dots != nullptr) launch_map("head_norm_squares", l.stream, JoinDots{w});
}

void launch(Gpu, const Launch& l, const HeadSquaresArgs& a) {
  HeadWork w = heads_of(a.qkv);
  w.d_squares = a.squares.f32();
  launch("head_squares", head_squares_kernel,
         {.x = w.tokens, .threads = kRowThreads, .shared_bytes = 2 * kWarp * sizeof(float)},
         l.stream, w);
}

void launch(Gpu, const Launch& l, const HeadSquaresGradArgs& a) {
  HeadWork w = heads_of(a.qkv);
  w.squares = a.d_squares.f32();
  w.dx = numbers(a.dx);
  launch_map("head_squares_grad", l.stream, AddSquaresGrad{w});
}

}  // namespace tessera::kernels
