// Sums and maxima over warps and blocks, in an order that depends only on the number of threads.
#pragma once

#include <gpu_runtime.h>

#include <cstdint>

#include "kernels/gpu/launch.h"

namespace tessera::kernels::gpu {

constexpr int kWarp = 32;

__device__ inline int lane_index() { return thread_of_block() % kWarp; }
__device__ inline int warp_index() { return thread_of_block() / kWarp; }
__device__ inline int warps_of_block() { return static_cast<int>(blockDim.x) / kWarp; }

// Returns the sum over the warp, in every lane.
template <class T>
__device__ T warp_sum(T x) {
  for (int o = kWarp / 2; o > 0; o /= 2) x += shuffle_xor(x, o);
  return x;
}
// Returns the maximum over the warp, in every lane. A NaN may be ignored.
__device__ inline float warp_max(float x) {
  for (int o = kWarp / 2; o > 0; o /= 2) x = fmaxf(x, shuffle_xor(x, o));
  return x;
}

// Replaces x[0] … x[K-1] in every thread by their sums over the block. `shared` has K * kWarp
// elements and can be reused immediately.
template <int K, class T>
__device__ void block_sums(T (&x)[K], T* shared) {
  const int warps = warps_of_block();
  for (int k = 0; k < K; ++k) {
    x[k] = warp_sum(x[k]);
    if (lane_index() == 0) shared[k * kWarp + warp_index()] = x[k];
  }
  __syncthreads();
  for (int k = 0; k < K; ++k) {
    T sum = 0;
    for (int w = 0; w < warps; ++w) sum += shared[k * kWarp + w];
    x[k] = sum;
  }
  __syncthreads();
}

__device__ inline float block_max(float x, float* shared) {
  const int warps = warps_of_block();
  x = warp_max(x);
  if (lane_index() == 0) shared[warp_index()] = x;
  __syncthreads();
  float most = shared[0];
  for (int w = 1; w < warps; ++w) most = fmaxf(most, shared[w]);
  __syncthreads();
  return most;
}

// Sums of doubles over an array are computed in two stages: each block adds kSquaresOfBlock
// elements, and then a single block adds the partial sums.
constexpr int64_t kSquaresOfBlock = 16 * 1024;  // elements per partial sum
int64_t squares_partials(int64_t n);

// *sum += partials[0] + … in a fixed order.
struct JoinWork {
  const double* partials = nullptr;
  int64_t count = 0;
  double* sum = nullptr;
};
void launch_join(const JoinWork& a, Stream s);

}  // namespace tessera::kernels::gpu
