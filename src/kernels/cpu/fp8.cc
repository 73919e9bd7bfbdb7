// Rounds tensors to the numbers of an FP8 format with one power of two as the scale of each tensor:
// a pass for max|x|, then a pass that scales, rounds and scales back. The scaling is exact, so an
// ordinary GEMM of the results equals an FP8 GEMM up to the order of its sums.
#include "kernels/fp8.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/cpu/parallel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {
namespace {

// 2^-k and 2^k are both normal f32 numbers up to this shift.
constexpr int kMostShift = 126;
constexpr uint32_t kSign = 0x80000000u, kInfinity = 0x7f800000u;

// Returns the bits of max|x|. The bits of magnitudes have the order of the magnitudes, with
// infinity and NaN above all finite numbers, so an integer maximum also detects these.
template <class T>
uint32_t largest_bits(const T* x, int64_t n, int threads) {
  uint32_t most = 0;
#pragma omp parallel for reduction(max                      \
                                   : most) schedule(static) \
    num_threads(threads) if (n > kGrainElements)
  for (int64_t i = 0; i < n; ++i)
    most = std::max(most, std::bit_cast<uint32_t>(as_f32(x[i])) & ~kSign);
  return most;
}

// Returns the number of the format nearest to x, ties to even. Normal numbers drop the low bits of
// the f32 mantissa, with the carry going into the exponent. Subnormal numbers have a fixed step of
// 2^(least_exponent - mantissa): adding and subtracting an anchor whose last bit is that step lets
// the hardware round.
float nearest(float x, const Fp8Format& f) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const float magnitude = std::bit_cast<float>(bits & ~kSign);
  const int dropped = 23 - f.mantissa;
  const uint32_t half = (1u << (dropped - 1)) - 1, odd = (bits >> dropped) & 1u;
  const float normal =
      std::bit_cast<float>(((bits & ~kSign) + half + odd) & ~((1u << dropped) - 1));
  const float anchor = std::ldexp(1.5f, 23 + f.least_exponent - f.mantissa);
  const float small = (magnitude + anchor) - anchor;
  const float least = std::ldexp(1.0f, f.least_exponent);
  return std::copysign(std::min(magnitude < least ? small : normal, f.most), x);
}

template <class T>
void round_all(const void* from, int64_t n, Fp8 f, void* to, int threads) {
  const T* const x = static_cast<const T*>(from);
  T* const y = static_cast<T*>(to);
  const uint32_t most = largest_bits(x, n, threads);
  if (most >= kInfinity) {
    std::fill(y, y + n, T(std::numeric_limits<float>::quiet_NaN()));
    return;
  }
  const Fp8Format format = format_of(f);
  const int k = fp8_shift(std::bit_cast<float>(most), f);
  const float scale = std::ldexp(1.0f, k), back = std::ldexp(1.0f, -k);
  parallel_ranges(n, kGrainElements, threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      store_f32(nearest(as_f32(x[i]) * scale, format) * back, y[i]);
  });
}

}  // namespace

int fp8_shift(float amax, Fp8 f) {
  // The exponents give k or k + 1: if the mantissa of amax exceeds that of the largest number,
  // k must be decremented.
  if (amax == 0) return 0;
  const float most = format_of(f).most;
  int k = std::ilogb(most) - std::ilogb(amax);
  if (std::ldexp(amax, k) > most) --k;
  return std::clamp(k, -kMostShift, kMostShift);
}

float nearest_fp8(float x, Fp8 f) { return nearest(x, format_of(f)); }

void round_to_fp8(const void* x, DType type, int64_t n, Fp8 f, void* y, int threads) {
  switch (type) {
    case DType::kF32:
      return round_all<float>(x, n, f, y, threads);
    case DType::kBF16:
      return round_all<BF16>(x, n, f, y, threads);
    case DType::kF16:
      return round_all<F16>(x, n, f, y, threads);
    default:
      CHECK(false, "cannot round {} to FP8", name_of(type));
  }
}

}  // namespace tessera::kernels
