// Launches kernels: each has one aggregate as its argument and uses only dynamic shared memory.
#pragma once

#include <gpu_runtime.h>

#include <cstddef>
#include <cstdint>

#include "tensor/gpu/check.h"

namespace tessera::kernels::gpu {

struct Grid {
  int64_t x = 1, y = 1, z = 1;  // blocks; x at most 2^31 - 1, y and z at most 65,535
  int threads = 256;            // per block; a multiple of the warp size
  size_t shared_bytes = 0;
};

constexpr size_t kPlainSharedBytes = 48 << 10;  // more needs a function attribute
constexpr size_t kMostArgumentBytes = 4096;     // supported by every GPU
constexpr int64_t kMostBlocksAlong = 0x7fffffff, kMostBlocksAcross = 65535;

// Throws Error with the runtime's error message.
void check_launch(gpuError_t code, const char* kernel);

template <class Args>
void launch(const char* name, void (*kernel)(Args), const Grid& grid, Stream stream,
            const Args& args) {
  static_assert(sizeof(Args) <= kMostArgumentBytes);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  if (grid.x > kMostBlocksAlong || grid.y > kMostBlocksAcross || grid.z > kMostBlocksAcross)
    check_launch(gpuErrorInvalidConfiguration,
                 name);  // before the numbers are truncated to 32 bits
  if (grid.shared_bytes > kPlainSharedBytes)
    check_launch(gpuFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                     gpuFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(grid.shared_bytes)),
                 name);
  gpuLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
                        static_cast<unsigned>(grid.z));
  config.blockDim = dim3(grid.threads);
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = native(stream);
  check_launch(gpuLaunchKernelEx(&config, kernel, args), name);
}

// Return the position of a thread in its grid, in 64 bits as the extents of arrays.
__device__ inline int64_t block_x() { return blockIdx.x; }
__device__ inline int64_t block_y() { return blockIdx.y; }
__device__ inline int64_t thread_of_grid() { return block_x() * blockDim.x + threadIdx.x; }
__device__ inline int64_t threads_of_grid() { return int64_t{gridDim.x} * blockDim.x; }
// Returns the position of a thread in its block.
__device__ inline int thread_of_block() { return static_cast<int>(threadIdx.x); }

constexpr int64_t blocks_for(int64_t n, int64_t each) { return (n + each - 1) / each; }

// Parallel maps: a launch calls work(0) … work(work.count() - 1), in any order.
constexpr int kMapThreads = 256;
constexpr int64_t kMapBlocks =
    132 * 16;  // enough to fill any GPU; each thread then handles several elements

template <class Work>
__global__ void map_kernel(const Work work) {
  const int64_t step = threads_of_grid(), n = work.count();
  for (int64_t i = thread_of_grid(); i < n; i += step) work(i);
}

template <class Work>
void launch_map(const char* name, Stream stream, const Work& work) {
  const int64_t blocks = blocks_for(work.count(), kMapThreads);
  launch(name, map_kernel<Work>,
         {.x = blocks < kMapBlocks ? blocks : kMapBlocks, .threads = kMapThreads}, stream, work);
}

// Returns the dynamic shared memory of the launch.
__device__ inline float* shared_floats() {
  extern __shared__ uint4 launch_shared_memory[];
  return reinterpret_cast<float*>(launch_shared_memory);
}

}  // namespace tessera::kernels::gpu
