// Sums of squares, the search for an element that is not finite, and the norm and scale of a step
// (kernels/gradient_norm.h). The first two are reductions in two stages: each block reduces a fixed
// part of the array to one number in the workspace, then a single block reduces those. The parts do
// not depend on the GPU and no atomics are used, so the gradient norm has the same bits in every
// run. Sums are f64: a square of a float cannot overflow it.
#include "kernels/gradient_norm.h"

#include <cmath>

#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/reduce.h"
#include "kernels/gpu/views.h"

namespace tessera::kernels::gpu {
namespace {

constexpr int kThreads = 256;
constexpr size_t kSharedBytes = kWarp * sizeof(double);

// *sum += sum of squares; `partials` has squares_partials(n) doubles.
struct SquaresWork {
  Numbers x;
  int64_t n = 0;
  bool vector = false;
  double *partials = nullptr, *sum = nullptr;
};

__global__ void squares_kernel(const SquaresWork a) {
  const int64_t begin = block_x() * kSquaresOfBlock;
  const int64_t end = begin + kSquaresOfBlock < a.n ? begin + kSquaresOfBlock : a.n;
  double sum[1] = {0};
  float x[kGroup];
  for (int64_t i = begin + threadIdx.x * kGroup; i < end; i += kThreads * kGroup) {
    const int n = group_size(end - i);
    read_group(a.x, i, n, a.vector, x);
    for (int k = 0; k < n; ++k) {
      const double wide = x[k];
      sum[0] += wide * wide;
    }
  }
  block_sums(sum, reinterpret_cast<double*>(shared_floats()));
  if (threadIdx.x == 0) a.partials[blockIdx.x] = sum[0];
}

__global__ void join_kernel(const JoinWork a) {
  double sum[1] = {0};
  for (int64_t i = threadIdx.x; i < a.count; i += kThreads) sum[0] += a.partials[i];
  block_sums(sum, reinterpret_cast<double*>(shared_floats()));
  if (threadIdx.x == 0) *a.sum += sum[0];
}

constexpr int64_t kNone = INT64_MAX;

__device__ int64_t block_min(int64_t x, int64_t* shared) {
  for (int o = kWarp / 2; o > 0; o /= 2) {
    const int64_t other = shuffle_xor(x, o);
    x = other < x ? other : x;
  }
  if (lane_index() == 0) shared[warp_index()] = x;
  __syncthreads();
  for (int w = 0; w < warps_of_block(); ++w) x = shared[w] < x ? shared[w] : x;
  return x;
}

// *first = the index of the first element that is not finite, or -1. `firsts` has
// squares_partials(n) elements.
struct SearchWork {
  Numbers x;
  int64_t n = 0;
  bool vector = false;
  int64_t *firsts = nullptr, *first = nullptr;
};

__global__ void search_kernel(const SearchWork a) {
  const int64_t begin = block_x() * kSquaresOfBlock;
  const int64_t end = begin + kSquaresOfBlock < a.n ? begin + kSquaresOfBlock : a.n;
  int64_t first = kNone;
  float x[kGroup];
  for (int64_t i = begin + threadIdx.x * kGroup; i < end; i += kThreads * kGroup) {
    const int n = group_size(end - i);
    read_group(a.x, i, n, a.vector, x);
    for (int k = 0; k < kGroup; ++k)
      if (k < n && !isfinite(x[k]) && i + k < first) first = i + k;
  }
  first = block_min(first, reinterpret_cast<int64_t*>(shared_floats()));
  if (threadIdx.x == 0) a.firsts[blockIdx.x] = first;
}

__global__ void search_join_kernel(const SearchWork a) {
  int64_t first = kNone;
  for (int64_t b = threadIdx.x; b * kSquaresOfBlock < a.n; b += kThreads)
    first = a.firsts[b] < first ? a.firsts[b] : first;
  first = block_min(first, reinterpret_cast<int64_t*>(shared_floats()));
  if (threadIdx.x == 0) *a.first = first == kNone ? -1 : first;
}

// Runs in one thread. The numbers stay on the device, so the update can be enqueued without waiting
// for the norm.
struct ClipOnce {
  ClipArgs a;
  __host__ __device__ int64_t count() const { return 1; }
  __device__ void operator()(int64_t) const {
    constexpr double kTiny = 1e-6;  // as kernels/cpu/gradient_norm.cc
    const double tokens = fmax(*a.tokens, 1.0) * *a.loss_scale;
    *a.norm = sqrt(*a.squares) / tokens;
    const double clip = a.limit > 0 ? fmin(1.0, a.limit / (*a.norm + kTiny)) : 1.0;
    *a.scale = clip / tokens;
    const bool finite = isfinite(*a.squares) && isfinite(*a.loss);
    *a.skip = finite && *a.skip_before == 0 ? 0.0 : 1.0;
  }
};

}  // namespace

int64_t squares_partials(int64_t n) { return blocks_for(n, kSquaresOfBlock); }

void launch_join(const JoinWork& a, Stream s) {
  launch("squares_join", join_kernel, {.threads = kThreads, .shared_bytes = kSharedBytes}, s, a);
}

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

int64_t workspace_bytes(Gpu, const SquaresArgs& a, int) {
  return bytes_for<double>(squares_partials(a.x.elements()));
}

void launch(Gpu, const Launch& l, const SquaresArgs& a) {
  const SquaresWork w = {numbers(a.x), a.x.elements(), aligned(a.x.data), l.room<double>(), a.sum};
  if (w.n == 0) return;
  const Grid grid = {.x = squares_partials(w.n), .threads = kThreads, .shared_bytes = kSharedBytes};
  launch("squares", squares_kernel, grid, l.stream, w);
  launch_join({w.partials, squares_partials(w.n), w.sum}, l.stream);
}

int64_t workspace_bytes(Gpu, const FirstNonFiniteArgs& a, int) {
  return bytes_for<int64_t>(squares_partials(a.x.elements()));
}

void launch(Gpu, const Launch& l, const FirstNonFiniteArgs& a) {
  const SearchWork w = {numbers(a.x), a.x.elements(), aligned(a.x.data), l.room<int64_t>(),
                        a.first};
  const Grid grid = {.x = squares_partials(w.n), .threads = kThreads, .shared_bytes = kSharedBytes};
  launch("search", search_kernel, grid, l.stream, w);
  launch("search_join", search_join_kernel, {.threads = kThreads, .shared_bytes = kSharedBytes},
         l.stream, w);
}

void launch(Gpu, const Launch& l, const ClipArgs& a) { launch_map("clip", l.stream, ClipOnce{a}); }

}  // namespace tessera::kernels
