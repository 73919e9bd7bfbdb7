// Quantizes an operand to FP8 with one power of two as its scale (kernels/fp8.h), in two kernels:
// block maxima of |x|, then the codes. Every block of the second kernel reduces the maxima itself,
// which saves a launch. Magnitudes are compared as bits, where infinity and NaN are above all
// finite numbers; the maximum does not depend on the order. A code is sign | exponent | mantissa.
// Normal numbers round by adding to the f32 bits, with the carry going into the exponent; the
// exponent is then re-biased. Below the smallest normal number the code is a multiple of the
// smallest subnormal, and the multiple 2^mantissa is the code of the smallest normal number.
#include "kernels/gpu/fp8.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/reduce.h"

namespace tessera::kernels::gpu {
namespace {

constexpr int kThreads = 256, kTile = 32;
constexpr uint32_t kMagnitude = 0x7fffffffu, kInfinity = 0x7f800000u;
constexpr int kMostShift = 126;  // as on the CPU
constexpr size_t kTileBytes = (kTile * (kTile + 1) + kWarp) * sizeof(float);

__device__ uint32_t block_most(uint32_t x, uint32_t* shared) {
  for (int o = kWarp / 2; o > 0; o /= 2) {
    const uint32_t other = shuffle_xor(x, o);
    x = other > x ? other : x;
  }
  if (lane_index() == 0) shared[warp_index()] = x;
  __syncthreads();
  uint32_t most = 0;
  for (int w = 0; w < warps_of_block(); ++w) most = shared[w] > most ? shared[w] : most;
  __syncthreads();
  return most;
}

__global__ void largest_kernel(const Fp8Work a) {
  const int64_t n = a.rows * a.columns, step = threads_of_grid() * kGroup;
  uint32_t most = 0;
  float x[kGroup];
  for (int64_t i = thread_of_grid() * kGroup; i < n; i += step) {
    const int there = group_size(n - i);
    read_group(a.x, i, there, a.vector, x);
    for (int k = 0; k < there; ++k) {
      const uint32_t bits = __float_as_uint(x[k]) & kMagnitude;
      most = bits > most ? bits : most;
    }
  }
  most = block_most(most, reinterpret_cast<uint32_t*>(shared_floats()));
  if (threadIdx.x == 0) a.partials[blockIdx.x] = most;
}

__device__ float power_of_two(int k) {
  const uint32_t exponent = k + 127;
  return __uint_as_float(exponent << 23);
}
// Returns the binary exponent of a positive number, rounded down.
__device__ int exponent_of(uint32_t bits) { return static_cast<int>(bits >> 23) - 127; }

// The scale of the operand, which every block computes from the partial maxima.
struct Scale {
  int shift = 0;
  bool finite = true;
};
__device__ Scale scale_of(const Fp8Work& a, uint32_t* shared) {
  const uint32_t bits = block_most(threadIdx.x < a.parts ? a.partials[threadIdx.x] : 0, shared);
  Scale s;
  s.finite = bits < kInfinity;
  if (bits == 0 || !s.finite) return s;
  // Finds the largest k with 2^k max <= most: the exponents give k or k + 1, and the comparison
  // decides.
  int k = exponent_of(__float_as_uint(a.most)) - exponent_of(bits);
  if (k > kMostShift) k = kMostShift;
  if (__uint_as_float(bits) * power_of_two(k) > a.most) --k;
  s.shift = k;
  return s;
}

__device__ uint8_t code_of(float x, const Fp8Work& a) {
  const uint32_t bits = __float_as_uint(x), sign = bits >> 31;
  const int dropped = 23 - a.mantissa;
  const uint32_t magnitude = bits & kMagnitude;
  uint32_t code = 0;
  if (__uint_as_float(magnitude) < power_of_two(a.least_exponent)) {
    // Subnormal: the code is the multiple of the smallest subnormal.
    const float steps = __uint_as_float(magnitude) * power_of_two(a.mantissa - a.least_exponent);
    code = __float2int_rn(steps);
  } else {
    const uint32_t half = (1u << (dropped - 1)) - 1, odd = (magnitude >> dropped) & 1u;
    uint32_t rounded = magnitude + half + odd;
    const uint32_t most = __float_as_uint(a.most), rebias = 127 - a.bias;
    if (rounded > most) rounded = most;
    code = (rounded >> dropped) - (rebias << a.mantissa);
  }
  return static_cast<uint8_t>(sign << 7 | code);
}

__device__ void write_factor(const Fp8Work& a, const Scale& s, bool first) {
  if (!first || threadIdx.x != 0) return;
  // With a factor of NaN, the result of the GEMM is NaN, so non-finite values are not hidden by
  // saturation.
  *a.factor = s.finite ? power_of_two(-s.shift) : __uint_as_float(kMagnitude);
}

__global__ void codes_kernel(const Fp8Work a) {
  const Scale s = scale_of(a, reinterpret_cast<uint32_t*>(shared_floats()));
  write_factor(a, s, blockIdx.x == 0);
  const float scale = power_of_two(s.shift);
  const int64_t n = a.rows * a.columns, step = threads_of_grid() * kGroup;
  float x[kGroup];
  for (int64_t i = thread_of_grid() * kGroup; i < n; i += step) {
    const int there = group_size(n - i);
    read_group(a.x, i, there, a.vector, x);
    uint32_t words[2] = {0, 0};
    for (int k = 0; k < there; ++k) {
      const uint32_t code = code_of(x[k] * scale, a);
      words[k / 4] |= code << (8 * (k % 4));
    }
    if (there == kGroup && a.vector) {
      auto* const to = reinterpret_cast<uint32_t*>(a.codes + i);
      to[0] = words[0];
      to[1] = words[1];
      continue;
    }
    for (int k = 0; k < there; ++k)
      a.codes[i + k] = static_cast<uint8_t>(words[k / 4] >> (8 * (k % 4)));
  }
}

// Transposes through a 32 x 32 tile in shared memory, so that both reads and writes are contiguous.
// The pitch of 33 avoids bank conflicts when columns are read.
__global__ void transposed_codes_kernel(const Fp8Work a) {
  float* const tile = shared_floats();
  const Scale s = scale_of(a, reinterpret_cast<uint32_t*>(tile + kTile * (kTile + 1)));
  write_factor(a, s, blockIdx.x == 0 && blockIdx.y == 0);
  const float scale = power_of_two(s.shift);
  const int64_t column = block_x() * kTile;
  const int64_t row = block_y() * kTile;
  const int across = lane_index(), warps = warps_of_block();
  for (int r = warp_index(); r < kTile; r += warps)
    if (row + r < a.rows && column + across < a.columns)
      tile[r * (kTile + 1) + across] = read(a.x, (row + r) * a.columns + column + across);
  __syncthreads();
  for (int c = warp_index(); c < kTile; c += warps)
    if (column + c < a.columns && row + across < a.rows)
      a.codes[(column + c) * a.rows + row + across] =
          code_of(tile[across * (kTile + 1) + c] * scale, a);
}

}  // namespace

void launch_fp8(const Fp8Work& a, Stream s) {
  constexpr size_t kShared = kWarp * sizeof(uint32_t);
  launch("fp8_largest", largest_kernel,
         {.x = a.parts, .threads = kThreads, .shared_bytes = kShared}, s, a);
  if (a.transposed) {
    launch("fp8_transposed_codes", transposed_codes_kernel,
           {.x = blocks_for(a.columns, kTile),
            .y = blocks_for(a.rows, kTile),
            .threads = kThreads,
            .shared_bytes = kTileBytes},
           s, a);
    return;
  }
  const int64_t blocks = blocks_for(a.rows * a.columns, kThreads * kGroup);
  launch("fp8_codes", codes_kernel,
         {.x = blocks < kMapBlocks ? blocks : kMapBlocks,
          .threads = kThreads,
          .shared_bytes = kShared},
         s, a);
}

}  // namespace tessera::kernels::gpu
