// Adds the terms of all ranks on the device, in the order of ranks: the sum of comm/reduce.cc, with
// the same bits. One thread per element reads the own term from the operand and the others from the
// staging memory, where those of rank r are at (r < own ? r : r - 1) * stride.
#include "comm/reduce.h"

#include "tensor/gpu/check.h"

namespace tessera::comm {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 132 * 8;

// Numbers as stored. Sums are f32, or f64 for f64.
struct Bits {
  DType type;
  __device__ double wide(const void* p, int64_t i) const {
    return static_cast<const double*>(p)[i];
  }
  __device__ float read(const void* p, int64_t i) const {
    if (type == DType::kF32) return static_cast<const float*>(p)[i];
    const uint16_t half = static_cast<const uint16_t*>(p)[i];
    const uint32_t bits = half;
    return type == DType::kBF16 ? __uint_as_float(bits << 16) : float_from_f16(half);
  }
  __device__ void write(void* p, int64_t i, float x) const {
    if (type == DType::kF32)
      static_cast<float*>(p)[i] = x;
    else
      static_cast<uint16_t*>(p)[i] = type == DType::kBF16 ? bf16_from_float(x) : f16_from_float(x);
  }
};

template <class T>
__device__ T joined(T sum, T x, bool maximum) {
  if (!maximum) return sum + x;
  return sum > x || sum != sum ? sum : x;  // the maximum with a NaN is NaN
}

struct Term {
  const void* data;
  int64_t at;
};

// Returns where the term of a rank is: the own one in the operand, the others in the staging
// memory.
__device__ Term term(const DeviceReduce& r, int64_t rank, int64_t i) {
  if (rank == r.rank) return {r.own, i};
  return {r.staged, (rank < r.rank ? rank : rank - 1) * r.stride + i};
}

__device__ void reduce_wide(const DeviceReduce& r, int64_t i) {
  const Bits in = {r.in};
  double sum = 0;
  for (int64_t rank = 0; rank < r.size; ++rank) {
    const Term t = term(r, rank, i);
    const double x = in.wide(t.data, t.at);
    sum = rank == 0 ? x : joined(sum, x, r.maximum);
  }
  double* const out = static_cast<double*>(r.out) + i;
  *out = r.add ? *out + sum : sum;
}

__global__ void reduce_kernel(const DeviceReduce r) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  const Bits in = {r.in}, out = {r.out_type};
  // A grid-stride loop; every element is one thread's, so the order of ranks is the order of the
  // sum.
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < r.n; i += step) {
    if (r.in == DType::kF64) {
      reduce_wide(r, i);
      continue;
    }
    float sum = 0;
    for (int64_t rank = 0; rank < r.size; ++rank) {
      const Term t = term(r, rank, i);
      const float x = in.read(t.data, t.at);
      sum = rank == 0 ? x : joined(sum, x, r.maximum);
    }
    out.write(r.out, i, r.add ? out.read(r.out, i) + sum : sum);
  }
}

}  // namespace

void launch_reduce(const DeviceReduce& r, Stream s) {
  if (r.n == 0) return;
  const int64_t blocks = (r.n + kThreads - 1) / kThreads;
  gpuLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks));
  config.blockDim = dim3(kThreads);
  config.stream = native(s);
  check_gpu(gpuLaunchKernelEx(&config, reduce_kernel, r), "a sum over ranks");
}

}  // namespace tessera::comm
